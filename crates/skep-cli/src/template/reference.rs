//! References of templates and images.

use skep_client::Template;

/// A reference without its tag or content.
pub(super) fn without_tag(reference: &str) -> &str {
    let end = reference.find([':', '@']).unwrap_or(reference.len());
    &reference[..end]
}

/// Returns true if the name after a `FROM` may mean one of these templates: it has no registry, and
/// is the name of one.
pub(super) fn may_be_template(name: &str, templates: &[Template]) -> bool {
    let has_registry = name
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    if has_registry || name.contains("@sha256:") {
        return false;
    }
    let bare = without_tag(name).to_lowercase();
    templates.iter().any(|template| {
        template.template_id == bare
            || template.aliases.contains(&bare)
            || template.names.contains(&bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        serde_json::from_value(serde_json::json!({
            "templateID": "abc", "buildID": "b", "cpuCount": 1, "memoryMB": 512,
            "diskSizeMB": 1, "public": false, "aliases": ["app"], "names": ["team/app"],
            "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z",
            "createdBy": null, "lastSpawnedAt": null, "spawnCount": 0, "buildCount": 1,
            "envdVersion": "0.5.0", "buildStatus": "ready",
        }))
        .unwrap()
    }

    #[test]
    fn a_template_goes_before_an_image_that_names_no_registry() {
        let templates = [template()];
        for (name, expected) in [
            ("app", true),
            ("App:v1", true),
            ("team/app@0123abcd", true),
            ("abc", true),
            ("debian", false),
            ("other/app", false),
            ("docker.io/app", false),
            ("localhost:5000/app", false),
            ("app@sha256:00", false),
        ] {
            assert_eq!(may_be_template(name, &templates), expected, "{name}");
        }
    }
}
