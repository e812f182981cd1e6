//! Kernels that are forked, where that comes to the same as starting them.

use std::os::fd::OwnedFd;

use skep_agent::{AgentHandle, Child, Program};
use skep_telemetry::Chain;

/// Variables that a program looks at only when it starts, and a fork has started already.
const SHAPING: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_",
    "LD_",
    "GLIBC_",
    "MALLOC_",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "PYTHON",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NUMEXPR_",
];

/// The value that templates set and zygotes are warmed with.
const USUAL: (&str, &str) = ("LANG", "C.UTF-8");

/// Has a kernel forked, where that comes to the same as starting it and can be done. Blocks.
pub(super) fn fork(
    agent: &AgentHandle,
    program: &Program,
    standard: [OwnedFd; 3],
) -> Option<Child> {
    if !agent.can_fork() {
        return None;
    }
    let environment = agent.environment();
    if let Some((name, _)) = environment.iter().find(|(name, value)| shapes(name, value)) {
        tracing::debug!(name, "a variable asks for a kernel of its own start");
        return None;
    }
    let forked = agent.fork(program, standard);
    forked
        .inspect_err(|error| tracing::info!(error = %Chain(error), "no kernel was forked"))
        .ok()
}

fn shapes(name: &str, value: &str) -> bool {
    (name, value) != USUAL && SHAPING.iter().any(|shaping| name.starts_with(shaping))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_reads_at_its_start_is_not_forked_over() {
        for name in ["PYTHONPATH", "LD_PRELOAD", "OMP_NUM_THREADS", "LC_ALL"] {
            assert!(shapes(name, "x"), "{name}");
        }
        for name in ["PATH", "HOME", "MATPLOTLIBRC", "MY_PYTHONPATH", "TZ"] {
            assert!(!shapes(name, "x"), "{name}");
        }
        assert!(shapes("LANG", "de_DE.UTF-8"));
        assert!(!shapes("LANG", "C.UTF-8"));
    }
}
