//! The registry of environment variables and the page made from it.
//!
//! The registry is Rust source: a constant `ALL`, an array of structures with the fields `name`,
//! `key` and `help`, each a text or a constant of the same file. It is read as source, so that
//! this program need not be built with the executable.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use syn::{Expr, ExprArray, Item, Lit, Member};

/// Path of the registry of variables.
pub(crate) const REGISTRY: &str = "crates/skep-config/src/env_vars.rs";
/// The page that lists it.
pub(crate) const PAGE: &str = "docs/reference/environment.md";

/// A variable that the executable reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The key of the configuration file it overrides; empty if there is none.
    pub(crate) key: String,
    /// Description of the variable.
    pub(crate) help: String,
}

/// Reads the registry in its order.
///
/// # Errors
///
/// What of the source is not as a registry should be.
pub(crate) fn read_registry(source: &str) -> Result<Vec<Variable>, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut constants = BTreeMap::new();
    for item in &file.items {
        if let Item::Const(constant) = item {
            constants.insert(constant.ident.to_string(), &*constant.expr);
        }
    }
    constants
        .get("ALL")
        .and_then(|list| array(list))
        .ok_or("there is no array `ALL`")?
        .elems
        .iter()
        .map(|element| variable(element, &constants))
        .collect()
}

fn array(expression: &Expr) -> Option<&ExprArray> {
    if let Expr::Reference(reference) = expression {
        return array(&reference.expr);
    }
    let Expr::Array(array) = expression else {
        return None;
    };
    Some(array)
}

fn variable(element: &Expr, constants: &BTreeMap<String, &Expr>) -> Result<Variable, String> {
    let Expr::Struct(element) = element else {
        return Err("an element of `ALL` is no structure".to_owned());
    };
    let field = |wanted: &str| {
        let found = element
            .fields
            .iter()
            .find(|field| matches!(&field.member, Member::Named(name) if name == wanted));
        found
            .and_then(|field| text(&field.expr, constants))
            .ok_or_else(|| format!("an element of `ALL` has no text for `{wanted}`"))
    };
    Ok(Variable {
        name: field("name")?,
        key: field("key")?,
        help: field("help")?,
    })
}

/// The text that `expression` stands for: a literal, or the name of a constant that is one.
fn text(expression: &Expr, constants: &BTreeMap<String, &Expr>) -> Option<String> {
    let mut expression = expression;
    if let Expr::Path(path) = expression {
        expression = constants.get(&path.path.get_ident()?.to_string())?;
    }
    let Expr::Lit(literal) = expression else {
        return None;
    };
    let Lit::Str(text) = &literal.lit else {
        return None;
    };
    Some(text.value())
}

/// The reference page for `variables`.
pub(crate) fn page(variables: &[Variable]) -> String {
    let mut page = format!(
        "# Environment variables\n\n\
         <!-- Made by `cargo xtask docs` from {REGISTRY}. -->\n\n\
         `skep` reads these once, at its start. A flag goes before the variable of the same meaning, and\n\
         the variable before the configuration file.\n\n\
         | variable | key in `skep.toml` | meaning |\n|---|---|---|\n"
    );
    for Variable { name, key, help } in variables {
        let key = if key.is_empty() {
            String::new()
        } else {
            format!("`{key}`")
        };
        writeln!(page, "| `{name}` | {key} | {help} |").expect("writing to a string cannot fail");
    }
    page
}

/// Writes the page, or with `check` says whether it is up to date.
#[expect(clippy::print_stdout, reason = "the answer is this command's output")]
pub(crate) fn write_page(root: &Path, check: bool) -> anyhow::Result<ExitCode> {
    let source = std::fs::read_to_string(root.join(REGISTRY))
        .with_context(|| format!("cannot read `{REGISTRY}`"))?;
    let variables =
        read_registry(&source).map_err(|error| anyhow::anyhow!("{REGISTRY}: {error}"))?;
    let page = page(&variables);
    let target = root.join(PAGE);
    if check {
        let is_current = std::fs::read_to_string(&target).is_ok_and(|written| written == page);
        println!(
            "{PAGE} is {}",
            if is_current { "up to date" } else { "stale" }
        );
        return Ok(ExitCode::from(u8::from(!is_current)));
    }
    std::fs::create_dir_all(target.parent().expect("the page is in a directory"))?;
    std::fs::write(&target, page).with_context(|| format!("cannot write `{PAGE}`"))?;
    println!("wrote {PAGE}");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        const FIRST: &str = "ONE";
        pub(crate) const ALL: &[EnvVar] = &[
            EnvVar { name: FIRST, key: "", help: "the first" },
            EnvVar { name: "TWO", key: "a.b", help: "the second" },
        ];
    "#;

    #[test]
    fn texts_and_constants_are_read_in_order() {
        let variables = read_registry(SOURCE).unwrap();
        let flat: Vec<_> = variables
            .iter()
            .map(|one| (one.name.as_str(), one.key.as_str(), one.help.as_str()))
            .collect();
        assert_eq!(
            flat,
            [("ONE", "", "the first"), ("TWO", "a.b", "the second")]
        );
    }

    #[test]
    fn a_registry_of_another_shape_is_refused() {
        assert_eq!(
            read_registry("fn f() {}").unwrap_err(),
            "there is no array `ALL`"
        );
        assert_eq!(
            read_registry("const ALL: &[u8] = &[1];").unwrap_err(),
            "an element of `ALL` is no structure"
        );
        let gap = SOURCE.replace("name: FIRST,", "name: MISSING,");
        assert_eq!(
            read_registry(&gap).unwrap_err(),
            "an element of `ALL` has no text for `name`"
        );
    }

    #[test]
    fn the_page_is_a_table() {
        let page = page(&read_registry(SOURCE).unwrap());
        assert!(
            page.ends_with("| `ONE` |  | the first |\n| `TWO` | `a.b` | the second |\n"),
            "{page}"
        );
    }
}
