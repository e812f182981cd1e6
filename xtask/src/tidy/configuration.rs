//! Every key of the configuration file has a row on its page, and every row a key.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Fields, GenericArgument, Item, ItemStruct, PathArguments, Type};

use super::Violation;
use super::page_rows::Listing;
use crate::tree::Tree;

const RULE: &str = "configuration";
/// Directory of the sources with the structures of the configuration.
const SOURCES: &str = "crates/skep-config/src/";
const PAGE: &str = "docs/reference/configuration.md";
/// The structure that is the whole file.
const TOP: &str = "Config";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources: Vec<&str> = tree
        .files
        .iter()
        .filter(|file| file.is_rust() && file.path.starts_with(SOURCES))
        .map(|file| file.text.as_str())
        .collect();
    if sources.is_empty() {
        return Vec::new();
    }
    let keys = match keys(&sources) {
        Ok(keys) => keys,
        Err(error) => return vec![Violation::new(RULE, SOURCES, error)],
    };
    let listing = Listing {
        rule: RULE,
        page: PAGE,
        kind: "key",
        headings: &[],
    };
    listing.compare(tree, &keys)
}

/// The keys of the configuration, with dots, from the fields of its structures.
fn keys(sources: &[&str]) -> Result<BTreeSet<String>, String> {
    let files: Vec<syn::File> = sources
        .iter()
        .map(|source| syn::parse_file(source).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let mut structures = BTreeMap::new();
    for item in files.iter().flat_map(|file| &file.items) {
        // A structure of one value is written as that value.
        if let Item::Struct(structure) = item
            && matches!(structure.fields, Fields::Named(_))
        {
            structures.insert(structure.ident.to_string(), structure);
        }
    }
    let top = structures
        .get(TOP)
        .ok_or_else(|| format!("there is no structure `{TOP}`"))?;
    let mut keys = BTreeSet::new();
    collect(top, "", &structures, &mut keys);
    Ok(keys)
}

fn collect(
    structure: &ItemStruct,
    prefix: &str,
    structures: &BTreeMap<String, &ItemStruct>,
    keys: &mut BTreeSet<String>,
) {
    let Fields::Named(fields) = &structure.fields else {
        return;
    };
    for field in &fields.named {
        let Some(name) = &field.ident else {
            continue;
        };
        let key = format!("{prefix}{name}");
        match type_name(&field.ty).and_then(|name| structures.get(&name)) {
            Some(section) => collect(section, &format!("{key}."), structures, keys),
            None => {
                keys.insert(key);
            }
        }
    }
}

/// The name of a type, looking into `Option`.
fn type_name(of: &Type) -> Option<String> {
    let Type::Path(path) = of else {
        return None;
    };
    let last = path.path.segments.last()?;
    if last.ident != "Option" {
        return Some(last.ident.to_string());
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    let Some(GenericArgument::Type(inner)) = arguments.args.first() else {
        return None;
    };
    type_name(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRUCTURES: &str =
        "struct Config { listen: SocketAddr, limits: Limits, tls: Option<Tls> }
        struct Limits { cpus: u32 }
        struct Tls { key: PathBuf }";
    const ROWS: &str = "| key | |\n| `listen` | x |\n| `limits.cpus` | x |\n| `tls.key` | x |\n";

    fn messages(source: &str, page: &str) -> Vec<String> {
        let (first, rest) = source.split_once('\n').unwrap_or((source, ""));
        let violations = check(&Tree::of(&[
            ("crates/skep-config/src/config.rs", first),
            ("crates/skep-config/src/sections.rs", rest),
            (PAGE, page),
        ]));
        violations
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn a_page_with_every_key_passes() {
        assert_eq!(messages(STRUCTURES, ROWS), [""; 0]);
    }

    #[test]
    fn a_missing_key_and_a_key_that_is_gone_are_named() {
        assert_eq!(
            messages(STRUCTURES, &ROWS.replace("| `tls.key` | x |\n", "")),
            ["has no row for `tls.key`"]
        );
        assert_eq!(
            messages(&STRUCTURES.replace("cpus", "cores"), ROWS),
            [
                "has no row for `limits.cores`",
                "has a row for `limits.cpus`, which is no key"
            ]
        );
    }

    #[test]
    fn a_source_without_the_structure_is_refused() {
        assert_eq!(
            messages("struct Other;", ROWS),
            ["there is no structure `Config`"]
        );
    }
}
