//! Uploads of the files that a step copies.

use skep_client::{BuildStep, TemplateBuild};

use super::files::Files;
use super::stage::StageBuilder;
use crate::CliError;

impl StageBuilder<'_> {
    /// Uploads the files of a step, if the server does not have them, and names them in it.
    pub(super) async fn upload(
        &self,
        build: &TemplateBuild,
        step: &BuildStep,
        line: usize,
        files: Files,
    ) -> Result<BuildStep, CliError> {
        let source = files.source().to_owned();
        let (files, hash) = blocking(move || {
            let hash = files.hash()?;
            Ok((files, hash))
        })
        .await?;
        let link = build.upload_link(&hash).await?;
        let cached = link.present && !self.order.args.no_cache;
        let bytes = files.bytes();
        if !cached {
            let archive = blocking(move || files.pack()).await?;
            let bar = self.progress.upload_bar(archive.bytes);
            let shown = bar.clone();
            let sent = move |sent| shown.set_position(sent);
            let uploading = build.upload(&link, archive.file, archive.bytes, sent);
            let uploaded = uploading.await;
            bar.finish_and_clear();
            uploaded?;
        }
        self.progress.uploaded(line, bytes, cached)?;
        let mut step = step.clone();
        if let Some(first) = step.args.as_mut().and_then(|args| args.first_mut()) {
            *first = source;
        }
        Ok(BuildStep {
            files_hash: Some(hash),
            ..step
        })
    }
}

/// Does something where blocking is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, CliError> {
    let done = tokio::task::spawn_blocking(work)
        .await
        .map_err(CliError::failure)?;
    done.map_err(|error| CliError::input(format!("cannot read the files: {error}"), "build again"))
}
