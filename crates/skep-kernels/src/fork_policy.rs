//! Kernels that may be forked, because that comes to the same as starting them.

use std::collections::BTreeMap;

/// Beginnings of the names of variables that a program looks at only when it starts. A fork has
/// started already, with the values that its zygote had.
const READ_AT_START: &[&str] = &[
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

/// The variable that templates set, and zygotes are warmed with.
const USUAL: (&str, &str) = ("LANG", "C.UTF-8");

/// Returns true if a fork of a zygote finds what a kernel started with these variables would.
pub(crate) fn may_be_forked(environment: &BTreeMap<String, String>) -> bool {
    let shaping = environment.iter().find(|(name, value)| shapes(name, value));
    if let Some((name, _)) = shaping {
        tracing::debug!(name, "a variable asks for a kernel of its own start");
    }
    shaping.is_none()
}

fn shapes(name: &str, value: &str) -> bool {
    (name, value) != USUAL && READ_AT_START.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forked(name: &str, value: &str) -> bool {
        may_be_forked(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn what_python_reads_at_its_start_is_not_forked_over() {
        for name in ["PYTHONPATH", "LD_PRELOAD", "OMP_NUM_THREADS", "LC_ALL"] {
            assert!(!forked(name, "x"), "{name}");
        }
        for name in ["PATH", "HOME", "MATPLOTLIBRC", "MY_PYTHONPATH", "TZ"] {
            assert!(forked(name, "x"), "{name}");
        }
        assert!(!forked("LANG", "de_DE.UTF-8"));
        assert!(forked("LANG", "C.UTF-8"));
        assert!(may_be_forked(&BTreeMap::new()));
    }
}
