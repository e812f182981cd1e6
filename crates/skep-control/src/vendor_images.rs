//! Images and templates of the vendor's: those that are here, and what to do in place of the others.

/// Images of the vendor's on Docker Hub, and the templates that have what people expect in them.
/// `from_base_image()` of the SDKs means the first.
const IMAGES: [(&str, &str); 2] = [
    ("e2bdev/base", "base"),
    ("e2bdev/code-interpreter", "code-interpreter-v1"),
];

/// The template that stands for an image; `None` for all others, and for a certain version of one.
pub(crate) fn template_of(image: &str) -> Option<&'static str> {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    let image = image.strip_suffix(":latest").unwrap_or(image);
    let found = IMAGES.iter().find(|(vendors, _)| *vendors == image);
    found.map(|(_, template)| *template)
}

/// Advice in place of a template of the vendor's that builders of the SDKs begin with, and that is
/// not here.
pub(crate) fn instead_of(template: &str) -> Option<&'static str> {
    (template == "devcontainer").then_some(
        "it is the vendor's alone, and runs Docker; begin with the image or the Dockerfile that `devcontainer.json` names (from_image, from_dockerfile), and make its commands steps",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_of_the_vendors_images_are_templates() {
        for image in ["e2bdev/base", "e2bdev/base:latest", "docker.io/e2bdev/base"] {
            assert_eq!(template_of(image), Some("base"), "{image}");
        }
        for image in [
            "base",
            "e2bdev/base:1.0",
            "other.test/e2bdev/base",
            "debian",
        ] {
            assert_eq!(template_of(image), None, "{image}");
        }
    }
}
