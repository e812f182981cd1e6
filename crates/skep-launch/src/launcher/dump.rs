//! A dump: CRIU in the network namespace of a tree of processes, and nowhere else of it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use rustix::process::{Resource, Rlimit};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::criu::{self, Answer};
use super::{read_file, report_failure};
use crate::channel::Channel;
use crate::report::{Report, Stage};
use crate::step_error::{About as _, StepError};
use crate::step_runner::StepRunner;
use crate::{Descriptors, DumpPlan, Step};

/// Limit of CRIU's memory. It grows with the mappings and descriptors of the processes, of which a
/// sandbox may make many; their pages are not among it. A restore runs in the sandbox's own group.
const MEMORY: u64 = 2 << 30;

/// Carries out the plan that comes with `descriptors`. False if that was a failure; the processes
/// go on then.
pub(super) fn carry_out(channel: &Channel, descriptors: Vec<OwnedFd>) -> bool {
    let mut steps = StepRunner::new(None);
    let read = steps.run(Step::ReadPlan, || read_plan(descriptors));
    let dumped = read.and_then(|(plan, descriptors)| {
        steps.run(Step::LeaveNamespaces, || enter(&plan, &descriptors))?;
        steps.run(Step::DumpProcesses, || {
            criu::run(&plan.tool, &plan.arguments, &[], |stage, pid| match stage {
                "post-dump" if !criu::is_allowed(channel, Stage::Dumped, pid) => Answer::GiveUp,
                _ => Answer::Go,
            })
        })?;
        // Nobody who listens is left to be told, at worst.
        channel.send(&Report::Dumped, &[]).ok();
        Ok(())
    });
    report_failure(channel, dumped)
}

fn read_plan(mut descriptors: Vec<OwnedFd>) -> Result<(DumpPlan, Descriptors), StepError> {
    if descriptors.is_empty() {
        return Err(Errno::BADF.into());
    }
    let plan = read_file(descriptors.remove(0))?;
    Ok((plan, Descriptors::from_received(descriptors)))
}

fn enter(plan: &DumpPlan, descriptors: &Descriptors) -> Result<(), StepError> {
    // A network namespace in which CRIU is itself is none that it would write down: it belongs to
    // the host's users, not to the tree's.
    let network = descriptors.get(plan.network)?;
    move_into_link_name_space(network, Some(LinkNameSpaceType::Network))
        .about(|| "the network".into())?;
    if let Some(cgroups) = plan.cgroups {
        let cgroups = descriptors.get(cgroups)?;
        move_into_link_name_space(cgroups, Some(LinkNameSpaceType::ControlGroup))
            .about(|| "the cgroups".into())?;
    }
    // What the kernel kills for its memory is anything but who has hold of processes of others. Root of some hosts may
    // not say so.
    std::fs::write("/proc/self/oom_score_adj", "-1000").ok();
    for (resource, limit) in [(Resource::As, MEMORY), (Resource::Core, 0)] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    skep_linux::leave_namespaces(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    criu::mount_run(&plan.tool)
}
