//! Provisions an image of a registry before the first step: a user, and the commands that SDKs use.

use std::io::{Seek as _, Write as _};

use skep_image::ContentKey;

use crate::build::{Build, Changed, StepFailure};
use crate::log::Log;

/// Names the script below. To be changed with it.
const VERSION: &str = "provision-2";

/// Exit code of the script for a system that it does not know.
const UNSUPPORTED: i32 = 20;

/// Makes a root ready. Says nothing but why it cannot.
const SCRIPT: &str = r#"
ID=; ID_LIKE=
[ -r /etc/os-release ] && . /etc/os-release
if [ -z "$ID" ]; then
    echo "the image has no /etc/os-release"
    exit 20
fi
family=
for name in $ID $ID_LIKE; do
    case $name in
        debian|ubuntu) family=debian; break ;;
        alpine) family=alpine; break ;;
        rhel|ol|amzn|fedora|centos|arch|nixos|suse|opensuse*) break ;;
    esac
done
[ -d /tmp ] || mkdir -m 1777 /tmp
missing=
for name in bash sudo curl git tar ss pgrep useradd; do
    command -v "$name" >/dev/null 2>&1 || missing="$missing $name"
done
case $family in
    debian)
        if [ -n "$missing" ]; then
            export DEBIAN_FRONTEND=noninteractive
            apt-get -q update >/tmp/.provision.log 2>&1 &&
            apt-get -q install -y --no-install-recommends -o DPkg::Options::=--force-unsafe-io bash sudo curl ca-certificates git tar iproute2 procps passwd >>/tmp/.provision.log 2>&1 || {
                echo "the packages for$missing cannot be installed:"
                tail -n 5 /tmp/.provision.log
                exit 1
            }
            rm -f /tmp/.provision.log
        fi ;;
    alpine)
        if [ -n "$missing" ]; then
            apk add --no-cache bash sudo curl ca-certificates git tar iproute2 procps shadow coreutils >/tmp/.provision.log 2>&1 || {
                echo "the packages for$missing cannot be installed:"
                tail -n 5 /tmp/.provision.log
                exit 1
            }
            rm -f /tmp/.provision.log
        fi ;;
    *)
        echo "ID='$ID' is not supported"
        exit 20 ;;
esac
if ! id -u user >/dev/null 2>&1; then
    if id -nu 1000 >/dev/null 2>&1; then
        useradd --create-home --shell /bin/bash user || exit 1
    else
        useradd --create-home --shell /bin/bash --uid 1000 user || exit 1
    fi
fi
passwd -d user >/dev/null 2>&1
mkdir -p /etc/sudoers.d &&
echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/user &&
chmod 440 /etc/sudoers.d/user || exit 1
exit 0
"#;

impl Build<'_> {
    /// Makes an image of a registry ready for the steps, unless that was done before.
    pub(crate) async fn provision(&mut self, log: &Log) -> Result<(), StepFailure> {
        let settings = self.engine.host_settings.files.clone();
        let mut parts = vec![self.state.as_bytes(), SCRIPT.as_bytes()];
        for (path, content) in &settings {
            parts.extend([path.as_bytes(), content.as_bytes()]);
        }
        let key = ContentKey::of(VERSION, parts);
        if let Some(record) = self.found(key).await? {
            self.enter(record);
            log.info(format!("CACHED [base] DEFAULT USER user [{}]", key.short()));
            return Ok(());
        }
        log.info("Provisioning sandbox template");
        let asked = self.ask(&["/bin/sh", "-c", ":"]).await;
        asked.map_err(|failure| match failure {
            StepFailure::Caller(message) => StepFailure::Caller(format!(
                "the image cannot be used: its shell cannot be run: {message}"
            )),
            failure @ StepFailure::Platform(_) => failure,
        })?;
        self.write_settings(&settings).await?;
        let (exit, said) = self.ask(&["/bin/sh", "-c", SCRIPT]).await?;
        match exit.code {
            Some(0) => {}
            Some(UNSUPPORTED) => {
                return Err(StepFailure::caller(format!(
                    "the image cannot be used: {said}; images of Debian, Ubuntu and Alpine Linux, and those derived from them, can"
                )));
            }
            _ => {
                return Err(StepFailure::caller(format!(
                    "the image cannot be prepared: {}: {said}",
                    exit.status
                )));
            }
        }
        // Again: packages that were installed may have brought files of their own.
        self.write_settings(&settings).await?;
        let mut context = self.context.clone();
        self.keep_path(&context).await?;
        context.user = "user".to_owned();
        self.settle(key, context, Changed::Files, "provisioning")
            .await?;
        log.info("Sandbox template provisioned");
        log.info(format!("[base] DEFAULT USER user [{}]", key.short()));
        Ok(())
    }

    /// Writes settings of the host. By the sandbox, because the paths of an image may lead anywhere.
    async fn write_settings(&mut self, files: &[(String, String)]) -> Result<(), StepFailure> {
        for (path, content) in files {
            let mut file =
                tempfile::tempfile_in(&self.engine.scratch).map_err(StepFailure::platform)?;
            file.write_all(content.as_bytes())
                .map_err(StepFailure::platform)?;
            file.rewind().map_err(StepFailure::platform)?;
            let written = self.sandbox().await?.write(path.clone(), file).await;
            written.map_err(StepFailure::platform)?;
        }
        Ok(())
    }
}
