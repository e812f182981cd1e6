//! Requests for new versions of templates.

use skep_store::{NewBuild, RequestOutcome, RequestedBuild, StoreError};
use skep_types::{BuildId, Resources, TemplateId, TemplateReference};

use crate::control::now;
use crate::version_name::{Tag, VersionName};
use crate::{Blocked, Caller, Control, ResolveError};

/// Largest number of processors, whatever the operator allows: clients know it.
const MOST_CPUS: u32 = 32;
/// Smallest memory in MiB.
const LEAST_MEMORY: u32 = 128;

/// A request for a new version of a template.
#[derive(Debug, Clone)]
pub struct VersionRequest {
    /// Name and tags.
    pub name: VersionName,
    /// Limits of its sandboxes that were asked for.
    pub resources: ResourceRequest,
}

/// Limits that a caller asks for; `None` is the usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceRequest {
    /// Processors that a sandbox may keep busy at a time.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
    /// Disk space in MiB that must be free.
    pub free_disk_mib: Option<u32>,
}

/// Limits that a template cannot have. The texts are those that clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// Too many processors.
    #[error("CPU count must be at most {0}")]
    Cpus(u32),
    /// An odd number of processors.
    #[error("CPU count must be 1 or an even number")]
    OddCpus,
    /// Too little memory.
    #[error("validation error: memory must be at least {LEAST_MEMORY} MiB")]
    LittleMemory,
    /// Too much memory.
    #[error("Memory can't be higher than {0} MiB")]
    Memory(u32),
    /// An odd number of MiB.
    #[error("Memory must be divisible by 2")]
    OddMemory,
    /// Too much disk space.
    #[error("Disk space can't be higher than {0} MiB")]
    Disk(u32),
}

impl ResourceRequest {
    /// The limits, if they are within `largest`.
    ///
    /// # Errors
    ///
    /// [`ResourceError`].
    pub fn bounded(self, largest: Resources) -> Result<Resources, ResourceError> {
        let usual = Resources::default();
        let most_cpus = largest.cpus.min(MOST_CPUS);
        let cpus = self.cpus.unwrap_or(usual.cpus.min(most_cpus));
        if cpus == 0 || cpus > most_cpus {
            return Err(ResourceError::Cpus(most_cpus));
        }
        if cpus != 1 && !cpus.is_multiple_of(2) {
            return Err(ResourceError::OddCpus);
        }
        let usual_memory = usual.memory_mib.min(largest.memory_mib);
        let memory_mib = self.memory_mib.unwrap_or(usual_memory);
        if memory_mib < LEAST_MEMORY.min(largest.memory_mib) {
            return Err(ResourceError::LittleMemory);
        }
        if memory_mib > largest.memory_mib {
            return Err(ResourceError::Memory(largest.memory_mib));
        }
        if !memory_mib.is_multiple_of(2) {
            return Err(ResourceError::OddMemory);
        }
        let asked = self.free_disk_mib.unwrap_or_default();
        if asked > largest.disk_mib {
            return Err(ResourceError::Disk(largest.disk_mib));
        }
        Ok(Resources {
            cpus,
            memory_mib,
            disk_mib: usual.disk_mib.min(largest.disk_mib).max(asked),
            pids: usual.pids.min(largest.pids),
        })
    }
}

/// Failure of something that was asked of a template, or of a build of it.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// The team may not change anything.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The limits cannot be had.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The name is the id of a template.
    #[error("name '{0}' is the id of a template")]
    NameIsAnId(String),
    /// There is no such template for the caller.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The template belongs to everybody, and only the operator changes it.
    #[error("template '{0}' belongs to everybody, and is changed by the operator")]
    Everybodys(TemplateReference),
    /// The template has no such build.
    #[error("build '{0}' not found")]
    UnknownBuild(BuildId),
    /// The build is another team's.
    #[error("you don't have access to build '{0}'")]
    ForeignBuild(BuildId),
    /// The build has been started by another request, or has failed.
    #[error("build is not in waiting state")]
    NotWaiting,
    /// No version that could be used has the tag.
    #[error("Template '{name}' with tag '{tag}' not found", name = .0.identifier, tag = .0.tag.as_deref().unwrap_or("default"))]
    NoVersion(TemplateReference),
    /// The team runs as many builds as it may.
    #[error("team runs {limit} builds already")]
    TooManyBuilds {
        /// Limit of the team.
        limit: u32,
    },
    /// Somebody uses the template.
    #[error("cannot delete template '{template}' because there are {users} using it")]
    InUse {
        /// The template.
        template: String,
        /// Users of the template, in words.
        users: &'static str,
    },
    /// A version cannot be deleted.
    #[error("cannot delete version '{build}': {reason}")]
    VersionInUse {
        /// The version.
        build: BuildId,
        /// Users of it, with a hint for the caller.
        reason: String,
    },
    /// The build has ended, so it cannot be cancelled.
    #[error("build '{0}' has ended already")]
    Ended(BuildId),
    /// Uploads cannot be looked at.
    #[error("cannot look for uploaded files")]
    Uploads(#[source] std::io::Error),
    /// The database did not take or tell it.
    #[error(transparent)]
    Record(#[from] StoreError),
    /// The task that did it died. It has been logged.
    #[error("the change broke off")]
    BrokeOff,
}

/// A version that waits to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedVersion {
    /// The template that it is one of, and the build.
    pub build: RequestedBuild,
    /// Its tags.
    pub tags: Vec<Tag>,
}

impl Control {
    /// Makes room for a new version of a template, and the template if there is none of that name.
    /// Nothing is built until it is started.
    ///
    /// # Errors
    ///
    /// [`VersionError`]; nothing has changed.
    pub async fn request_version(
        &self,
        caller: &Caller,
        request: VersionRequest,
    ) -> Result<RequestedVersion, VersionError> {
        caller.may_change()?;
        let limits = caller.limits;
        let VersionName { name, tags } = request.name;
        let new = NewBuild {
            team: caller.team.id.clone(),
            name: name.clone(),
            template: TemplateId::random(),
            build: BuildId::random(),
            tags: tags.iter().map(ToString::to_string).collect(),
            resources: request.resources.bounded(limits.largest)?,
            at: now(),
            limit: limits.builds,
        };
        let requesting = self.inner.store.templates().request(new);
        match requesting.recorded().await? {
            RequestOutcome::Recorded(build) => Ok(RequestedVersion { build, tags }),
            RequestOutcome::NameIsAnId => Err(VersionError::NameIsAnId(name)),
            RequestOutcome::TooMany => Err(VersionError::TooManyBuilds {
                limit: limits.builds,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(cpus: u32, memory_mib: u32) -> Result<(u32, u32), String> {
        let request = ResourceRequest {
            cpus: Some(cpus),
            memory_mib: Some(memory_mib),
            free_disk_mib: None,
        };
        let largest = Resources {
            cpus: 64,
            memory_mib: 4096,
            ..Resources::default()
        };
        let bounded = request.bounded(largest).map_err(|error| error.to_string());
        bounded.map(|resources| (resources.cpus, resources.memory_mib))
    }

    #[test]
    fn limits_are_refused_in_the_words_that_clients_know() {
        assert_eq!(bounded(1, 128), Ok((1, 128)));
        assert_eq!(bounded(32, 4096), Ok((32, 4096)));
        let refused = |cpus, memory| bounded(cpus, memory).unwrap_err();
        assert_eq!(refused(34, 512), "CPU count must be at most 32");
        assert_eq!(refused(3, 512), "CPU count must be 1 or an even number");
        assert_eq!(refused(2, 513), "Memory must be divisible by 2");
        assert_eq!(refused(2, 8192), "Memory can't be higher than 4096 MiB");
    }

    #[test]
    fn who_asks_for_nothing_gets_the_usual_within_the_operators_limits() {
        let largest = Resources {
            cpus: 1,
            memory_mib: 512,
            disk_mib: 100,
            pids: 10,
        };
        let bounded = ResourceRequest::default().bounded(largest);
        assert_eq!(bounded, Ok(largest));
    }
}
