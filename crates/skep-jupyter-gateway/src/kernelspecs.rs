//! Kernelspecs: the languages of the templates that a team can use.
//!
//! The API does not tell the languages of a template. Ours are known, and a template that a team
//! has built on one of them has its languages.

use serde_json::{Map, Value, json};
use skep_client::{Client, ClientError, Template};

/// Length of a chain of templates above which nobody looks further.
const DEEPEST: usize = 8;
/// Number of templates of a team whose languages are looked up for one answer.
const MOST_TEMPLATES: usize = 32;
/// Template that has every language, and is looked into after the usual one.
const ALL_LANGUAGES: &str = "code-interpreter-languages";

/// A language, under the name that its kernelspec has elsewhere, so that notebooks are at home.
#[derive(Debug, PartialEq, Eq)]
struct Language {
    spec: &'static str,
    name: &'static str,
    display: &'static str,
}

const LANGUAGES: &[Language] = &[
    language("python3", "python", "Python 3"),
    language("javascript", "javascript", "JavaScript (Node.js)"),
    language("typescript", "typescript", "TypeScript (Node.js)"),
    language("bash", "bash", "Bash"),
    language("java", "java", "Java"),
    language("ir", "r", "R"),
];

/// Languages of the templates that come with the server: the first four, or all.
const BUILT_IN: &[(&str, usize)] = &[
    ("code-interpreter-slim", 4),
    (ALL_LANGUAGES, LANGUAGES.len()),
    ("code-interpreter-v1", LANGUAGES.len()),
];

const fn language(spec: &'static str, name: &'static str, display: &'static str) -> Language {
    Language {
        spec,
        name,
        display,
    }
}

/// A kernelspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernelspec {
    /// Its name: that of the language, with the template behind it unless that is the usual one.
    pub(crate) name: String,
    display: String,
    /// Language, as the interpreter calls it.
    pub(crate) language: &'static str,
    /// Template of its sandboxes.
    pub(crate) template: String,
}

impl Kernelspec {
    fn new(language: &Language, template: &str) -> Self {
        Self {
            name: language.spec.to_owned(),
            display: language.display.to_owned(),
            language: language.name,
            template: template.to_owned(),
        }
    }

    fn of_template(language: &Language, template: &str) -> Self {
        Self {
            name: format!("{}.{template}", language.spec),
            display: format!("{} ({template})", language.display),
            ..Self::new(language, template)
        }
    }

    /// The kernelspec as Jupyter writes it.
    pub(crate) fn rendered(&self) -> Value {
        json!({
            "name": self.name,
            "spec": {
                "argv": [],
                "env": {},
                "display_name": self.display,
                "language": self.language,
                "interrupt_mode": "message",
                "metadata": {},
            },
            "resources": {},
        })
    }
}

/// All kernelspecs as Jupyter writes them.
pub(crate) fn rendered(specs: &[Kernelspec]) -> Value {
    let default = specs.first().map_or("python3", |spec| spec.name.as_str());
    let entries = specs
        .iter()
        .map(|spec| (spec.name.clone(), spec.rendered()));
    json!({"default": default, "kernelspecs": entries.collect::<Map<_, _>>()})
}

/// The kernelspecs of the templates that the client's team can use: plain names for the languages
/// of `usual`, and of the template with all languages if it is there; longer ones for the others.
pub(crate) async fn list(client: &Client, usual: &str) -> Result<Vec<Kernelspec>, ClientError> {
    let templates = client.templates().list().await?;
    let mut specs: Vec<Kernelspec> = Vec::new();
    for home in [usual, ALL_LANGUAGES] {
        for language in languages_of(client, home).await? {
            if !specs.iter().any(|spec| spec.language == language.name) {
                specs.push(Kernelspec::new(language, home));
            }
        }
    }
    let others = templates.iter().filter_map(own_name).filter(|name| {
        let is_built_in = BUILT_IN.iter().any(|(built_in, _)| built_in == name);
        !is_built_in && *name != usual
    });
    for name in others.take(MOST_TEMPLATES) {
        let languages = languages_of(client, name).await?;
        let of_template = languages.iter();
        specs.extend(of_template.map(|language| Kernelspec::of_template(language, name)));
    }
    Ok(specs)
}

/// The kernelspec with a name, or that of a language; that of Python without one.
pub(crate) async fn find(
    client: &Client,
    usual: &str,
    name: Option<&str>,
) -> Result<Option<Kernelspec>, ClientError> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or("python3");
    if let Some((language, template)) = name.split_once('.') {
        let languages = languages_of(client, template).await?;
        let found = languages.iter().find(|known| known.is(language));
        return Ok(found.map(|language| Kernelspec::of_template(language, template)));
    }
    for home in [usual, ALL_LANGUAGES] {
        let languages = languages_of(client, home).await?;
        if let Some(language) = languages.iter().find(|known| known.is(name)) {
            return Ok(Some(Kernelspec::new(language, home)));
        }
    }
    Ok(None)
}

/// The language of this name, as the interpreter calls it.
pub(crate) fn known_language(name: &str) -> Option<&'static str> {
    let mut names = LANGUAGES.iter().map(|language| language.name);
    names.find(|known| *known == name)
}

impl Language {
    fn is(&self, name: &str) -> bool {
        self.spec == name || self.name == name
    }
}

/// A name of a template that can be part of a kernelspec's.
fn own_name(template: &Template) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let names = template.aliases.iter().map(String::as_str);
    names.into_iter().find(|name| name.bytes().all(is_plain))
}

/// Languages of the template that a reference means, by the first of ours that it stands on. There
/// are none if there is no such template.
async fn languages_of(
    client: &Client,
    reference: &str,
) -> Result<&'static [Language], ClientError> {
    let mut reference = reference.to_owned();
    for _ in 0..DEEPEST {
        let version = match client.templates().version(&reference).await {
            Ok(version) => version,
            Err(error) if matches!(error.status(), Some(400 | 403 | 404)) => return Ok(&[]),
            Err(error) => return Err(error),
        };
        let built_in = version.names.iter().find_map(|name| known(name));
        if let Some(languages) = built_in {
            return Ok(languages);
        }
        match version.from_template {
            Some(below) => reference = below,
            None => return Ok(&[]),
        }
    }
    Ok(&[])
}

/// Languages of one of our templates, by a name that may have a namespace and a tag.
fn known(name: &str) -> Option<&'static [Language]> {
    let bare = name.rsplit_once('/').map_or(name, |(_, bare)| bare);
    let bare = bare.split_once(':').map_or(bare, |(bare, _)| bare);
    let found = BUILT_IN.iter().find(|(built_in, _)| *built_in == bare);
    found.map(|(_, count)| &LANGUAGES[..*count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_our_templates_are_known_with_namespace_and_tag() {
        assert_eq!(known("code-interpreter-slim").map(<[_]>::len), Some(4));
        assert_eq!(
            known("skep/code-interpreter-v1:default").map(<[_]>::len),
            Some(6)
        );
        assert_eq!(known("base"), None);
    }

    #[test]
    fn notebooks_find_the_names_that_they_have() {
        let specs: Vec<_> = LANGUAGES
            .iter()
            .map(|language| Kernelspec::new(language, "t"))
            .collect();
        let list = rendered(&specs);
        assert_eq!(list["default"], "python3");
        assert_eq!(list["kernelspecs"]["ir"]["spec"]["language"], "r");
        assert_eq!(list["kernelspecs"]["python3"]["name"], "python3");
        let other = Kernelspec::of_template(&LANGUAGES[0], "mine");
        assert_eq!(other.name, "python3.mine");
    }
}
