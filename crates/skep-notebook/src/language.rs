//! Language of a notebook, and its metadata.

use serde::Deserialize;
use serde_json::json;

use crate::object::Object;

/// A language by the name that Skep has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language(String);

#[derive(Deserialize)]
struct KernelSpec {
    name: Option<String>,
    language: Option<String>,
}

#[derive(Deserialize)]
struct LanguageInfo {
    name: Option<String>,
}

/// Self-description of Jupyter's kernel of a language.
struct Described {
    kernel: &'static str,
    display_name: &'static str,
    extension: &'static str,
    mimetype: &'static str,
    lexer: &'static str,
}

impl Language {
    /// The language that somebody calls so: `Python`, `python3`, `ir`, `node` …
    pub fn named(name: &str) -> Self {
        let name = name.trim().to_lowercase();
        let meant = match name.as_str() {
            "ipython" | "ipykernel" | "xpython" => "python",
            "js" | "node" | "nodejs" | "node_nbr" | "jslab" | "deno" => "javascript",
            "ts" | "tslab" => "typescript",
            "ir" => "r",
            "ijava" | "rapaio-jupyter-kernel" => "java",
            "sh" | "shell" => "bash",
            // `python3`, `python3.11`, `python-venv` are all one language.
            name if name.starts_with("python") => "python",
            other => other,
        };
        Self(meant.to_owned())
    }

    /// Returns the name in lower case, such as `python`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Reads the language from the metadata of a notebook, if it is there.
    pub(crate) fn of(metadata: &Object) -> Option<Self> {
        let spec: Option<KernelSpec> = metadata.read("kernelspec");
        let info: Option<LanguageInfo> = metadata.read("language_info");
        let (name, language) = spec.map_or((None, None), |spec| (spec.name, spec.language));
        [language, info.and_then(|info| info.name), name]
            .into_iter()
            .flatten()
            .find(|name| !name.is_empty())
            .map(|name| Self::named(&name))
    }

    /// Says in the metadata of a new notebook which language it is in.
    pub(crate) fn describe(&self, metadata: &mut Object) {
        let Some(known) = described(&self.0) else {
            metadata.set(
                "kernelspec",
                &json!({"display_name": self.0, "language": self.0, "name": self.0}),
            );
            metadata.set("language_info", &json!({"name": self.0}));
            return;
        };
        metadata.set(
            "kernelspec",
            &json!({
                "display_name": known.display_name,
                "language": self.0,
                "name": known.kernel,
            }),
        );
        metadata.set(
            "language_info",
            &json!({
                "file_extension": known.extension,
                "mimetype": known.mimetype,
                "name": self.0,
                "pygments_lexer": known.lexer,
            }),
        );
    }
}

fn described(language: &str) -> Option<Described> {
    let (kernel, display_name, extension, mimetype, lexer) = match language {
        "python" => ("python3", "Python 3", ".py", "text/x-python", "ipython3"),
        "javascript" => (
            "javascript",
            "JavaScript",
            ".js",
            "text/javascript",
            "javascript",
        ),
        "typescript" => (
            "typescript",
            "TypeScript",
            ".ts",
            "text/typescript",
            "typescript",
        ),
        "bash" => ("bash", "Bash", ".sh", "text/x-sh", "bash"),
        "r" => ("ir", "R", ".r", "text/x-r-source", "r"),
        "java" => ("java", "Java", ".java", "text/x-java-source", "java"),
        _ => return None,
    };
    Some(Described {
        kernel,
        display_name,
        extension,
        mimetype,
        lexer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(metadata: &str) -> Option<String> {
        let metadata: Object = serde_json::from_str(metadata).unwrap();
        Language::of(&metadata).map(|language| language.0)
    }

    #[test]
    fn the_language_is_found_in_whatever_tells_it() {
        for (metadata, language) in [
            (
                r#"{"kernelspec":{"name":"x","language":"Python"}}"#,
                Some("python"),
            ),
            (
                r#"{"kernelspec":{"name":"python3","display_name":"P"}}"#,
                Some("python"),
            ),
            (r#"{"kernelspec":{"name":"ir","language":"R"}}"#, Some("r")),
            (r#"{"kernelspec":{"name":"ir"}}"#, Some("r")),
            (
                r#"{"language_info":{"name":"bash","version":"5"}}"#,
                Some("bash"),
            ),
            (
                r#"{"kernelspec":{"name":"jslab","language":"javascript"}}"#,
                Some("javascript"),
            ),
            (
                r#"{"kernelspec":[],"language_info":{"name":"java"}}"#,
                Some("java"),
            ),
            (
                r#"{"kernelspec":{"name":"julia-1.10"}}"#,
                Some("julia-1.10"),
            ),
            (r#"{"kernelspec":{"name":""}}"#, None),
            ("{}", None),
        ] {
            assert_eq!(told(metadata).as_deref(), language, "{metadata}");
        }
    }

    #[test]
    fn what_is_written_is_understood_again() {
        for name in [
            "python",
            "javascript",
            "typescript",
            "bash",
            "r",
            "java",
            "ruby",
        ] {
            let mut metadata = Object::default();
            Language(name.to_owned()).describe(&mut metadata);
            assert_eq!(Language::of(&metadata), Some(Language(name.to_owned())));
        }
    }
}
