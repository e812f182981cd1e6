//! Links by which files are uploaded: whoever has one needs no key.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use sha2::Sha256;
use skep_types::{FilesHash, TeamId, TemplateReference};

use super::Upload;
use crate::control::now;
use crate::{Caller, Control, UploadError, VersionError};

/// Time for which a link can be used. A client uploads one archive after another, each of which may
/// take an hour.
const LINK_LIFETIME: Duration = Duration::from_hours(6);

/// Key by which links are signed.
pub(crate) struct LinkKey(pub(crate) Vec<u8>);

impl fmt::Debug for LinkKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LinkKey")
    }
}

/// Name of a link: the team and the files that it is for, its end, and a signature of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadLink {
    team: TeamId,
    files: FilesHash,
    /// In seconds since 1970.
    ends_at: i64,
    signature: Vec<u8>,
}

/// The link is none of ours, or can no longer be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the upload link is not valid, or its time is over")]
pub struct LinkError;

impl fmt::Display for UploadLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signature = hex::encode(&self.signature);
        write!(formatter, "{}.{signature}", self.signed_text())
    }
}

impl FromStr for UploadLink {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [team, files, ends_at, signature] = parts[..] else {
            return Err(LinkError);
        };
        Ok(Self {
            team: team.parse().map_err(|_| LinkError)?,
            files: files.parse().map_err(|_| LinkError)?,
            ends_at: ends_at.parse().map_err(|_| LinkError)?,
            signature: hex::decode(signature).map_err(|_| LinkError)?,
        })
    }
}

impl UploadLink {
    fn signed_text(&self) -> String {
        format!("{}.{}.{}", self.team, self.files.as_str(), self.ends_at)
    }

    fn mac(&self, key: &LinkKey) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("a key of any length is taken");
        mac.update(self.signed_text().as_bytes());
        mac
    }

    fn sign(mut self, key: &LinkKey) -> Self {
        self.signature = self.mac(key).finalize().into_bytes().to_vec();
        self
    }

    fn check(&self, key: &LinkKey, now: Timestamp) -> Result<(), LinkError> {
        let is_ours = self.mac(key).verify_slice(&self.signature).is_ok();
        if is_ours && now.as_second() < self.ends_at {
            Ok(())
        } else {
            Err(LinkError)
        }
    }
}

/// Answer for somebody who is about to upload files.
#[derive(Debug, Clone)]
pub struct FileLink {
    /// True if the team has them already.
    pub is_present: bool,
    /// Link by which they can be uploaded all the same.
    pub link: UploadLink,
}

impl Control {
    /// Says whether files that a build of a template is to copy are there, and where to upload them.
    ///
    /// # Errors
    ///
    /// [`VersionError`].
    pub async fn file_link(
        &self,
        caller: &Caller,
        template: &TemplateReference,
        files: FilesHash,
    ) -> Result<FileLink, VersionError> {
        caller.may_change()?;
        self.own_template(&caller.team, template).await?;
        let team = caller.team.id.clone();
        let uploads = &self.inner.uploads;
        let is_present = uploads.is_present(&team, &files).await;
        let lifetime = i64::try_from(LINK_LIFETIME.as_secs()).unwrap_or(i64::MAX);
        let link = UploadLink {
            team,
            files,
            ends_at: now().as_second().saturating_add(lifetime),
            signature: Vec::new(),
        };
        Ok(FileLink {
            is_present: is_present.map_err(VersionError::Uploads)?,
            link: link.sign(&self.inner.link_key),
        })
    }

    /// Checks a link before anything is read of what is sent to it.
    ///
    /// # Errors
    ///
    /// [`LinkError`].
    pub fn check_link(&self, link: &UploadLink) -> Result<(), LinkError> {
        link.check(&self.inner.link_key, now())
    }

    /// Takes files that somebody uploads by a link that was checked.
    ///
    /// # Errors
    ///
    /// [`UploadError`]; nothing is kept.
    pub async fn receive_files(
        &self,
        link: &UploadLink,
        upload: Upload,
    ) -> Result<(), UploadError> {
        let receiving = self.inner.uploads.receive(&link.team, &link.files, upload);
        receiving.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_for_one_team_one_upload_and_some_hours() {
        let key = LinkKey(vec![7; 32]);
        let link = UploadLink {
            team: TeamId::random(),
            files: "a".repeat(64).parse().unwrap(),
            ends_at: 1000,
            signature: Vec::new(),
        };
        let link = link.sign(&key);
        let at = |second| Timestamp::from_second(second).unwrap();
        let read: UploadLink = link.to_string().parse().unwrap();
        assert_eq!(read, link);
        assert_eq!(read.check(&key, at(999)), Ok(()));
        assert_eq!(read.check(&key, at(1000)), Err(LinkError));
        assert_eq!(read.check(&LinkKey(vec![8; 32]), at(1)), Err(LinkError));
        let mut other = link.clone();
        other.team = TeamId::random();
        assert_eq!(other.check(&key, at(1)), Err(LinkError));
        let mut later = link.clone();
        later.ends_at = 2000;
        assert_eq!(later.check(&key, at(1)), Err(LinkError));
        assert_eq!("x".parse::<UploadLink>(), Err(LinkError));
    }
}
