//! Dockerfiles: whatever the text is, it is read or refused, and a refusal names a place that is in
//! the text.

use skep_dockerfile::Dockerfile;

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lines = text.lines().count().max(1);
    match Dockerfile::read(text, &[("ARGUMENT", "value")]) {
        Ok(file) => {
            assert!(
                !file.stages.is_empty(),
                "a file without a stage builds nothing"
            );
            assert!(file.warnings.iter().all(|warning| warning.at.line <= lines));
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            for error in &errors.0 {
                assert!(error.at.line <= lines && error.at.line > 0, "{error}");
                assert!(error.at.column > 0, "{error}");
            }
        }
    }
}
