//! The builds of templates that teams order.

use std::num::NonZeroU32;

use serde::Deserialize;

/// Limits of builds, and how long what they leave is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Builds {
    /// Minutes that a build may take.
    pub minutes: NonZeroU32,
    /// Space that a template may take beyond its base.
    pub template_gib: NonZeroU32,
    /// Builds of all teams that run at a time; others wait.
    pub concurrent: NonZeroU32,
    /// Days for which results of steps, uploads and failed builds are kept since they were last used;
    /// 0 is for ever.
    pub keep_days: u32,
    /// Days for which a version is kept that no tag means and nothing uses; 0 is until its template is
    /// deleted.
    pub version_days: u32,
    /// Space for what package clients download during builds, for a team and a base; 0 keeps nothing.
    pub download_gib: u32,
}

impl Default for Builds {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Self {
            minutes: number(60),
            template_gib: number(20),
            concurrent: number(4),
            keep_days: 30,
            version_days: 0,
            download_gib: 5,
        }
    }
}
