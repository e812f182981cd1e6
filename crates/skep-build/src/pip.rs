//! `pip install` of a build, done by `uv`.
//!
//! An index need not allow that its answers are kept, and then `pip` keeps nothing; `uv` keeps what it has
//! unpacked, under the digests that the index names. A command is only given to it if it means the same
//! there, and `pip` has the last word: it does what `uv` cannot do.

use crate::sandboxes::Command;

/// Exit code of the script for what `pip` alone can do.
pub(crate) const ONLY_PIP: i32 = 21;

/// Installs by `uv`. `$1` makes bytecode, `$2` is the name of `pip`, and the rest is to be installed.
const SCRIPT: &str = r#"
compile=$1
uv=$(command -v uv) && pip=$(command -v "$2") || exit 21
shift 2
python=$(sed -n '1s/^#! *//p' "$pip")
[ -x "$python" ] || exit 21
# Settings of pip that uv would not know of.
for name in $(compgen -e PIP_); do
    case $name in
        PIP_CACHE_DIR|PIP_NO_CACHE_DIR|PIP_CERT|PIP_DEFAULT_TIMEOUT|PIP_TIMEOUT|PIP_RETRIES) ;;
        PIP_DISABLE_PIP_VERSION_CHECK|PIP_ROOT_USER_ACTION|PIP_PROGRESS_BAR|PIP_NO_INPUT) ;;
        *) exit 21 ;;
    esac
done
known='^[[:space:]]*($|[][#;]|(cert|timeout|retries|root-user-action|disable-pip-version-check|no-cache-dir|progress-bar)[[:space:]]*[=:])'
for file in /etc/xdg/pip/pip.conf /etc/pip.conf ~/.pip/pip.conf ~/.config/pip/pip.conf "${python%/bin/*}/pip.conf"; do
    [ -f "$file" ] || continue
    while read -r option mark value; do
        # The host's mirror is in both.
        [ "$option$mark" = index-url= ] && grep -qsF "\"$value\"" /etc/uv/uv.toml || exit 21
    done < <(grep -Ev "$known" "$file")
done
for word; do
    # Options in a file of requirements, such as another index.
    [ -f "$word" ] && grep -Eq '^[[:space:]]*-' "$word" && exit 21
done
configuration=--no-config
[ ! -f /etc/uv/uv.toml ] || configuration=--config-file=/etc/uv/uv.toml
export NO_COLOR=1 UV_PYTHON_DOWNLOADS=never
"$uv" pip install --no-progress "$configuration" --python "$python" "$@" || exit
"$python" -c "$compile" "$UV_CACHE_DIR/archive-v0"
"#;

/// Makes bytecode of what is new, as `pip` does. It is made beside what is kept, from where later
/// installations have it, and belongs to the content of a source, because every copy has another time.
const COMPILE: &str = r#"
import compileall, os, py_compile, shutil, sys, sysconfig

kept, end = sys.argv[1], f".{sys.implementation.cache_tag}.pyc"
sites = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
by_content = py_compile.PycInvalidationMode.CHECKED_HASH

def bytecode(package):
    for folder, _, names in os.walk(package):
        yield from (os.path.join(folder, name) for name in names if name.endswith(end))

for name in os.listdir(kept):
    package = os.path.join(kept, name)
    if any(bytecode(package)):
        continue
    compileall.compile_dir(package, quiet=2, workers=0, invalidation_mode=by_content, stripdir=package, prependdir=min(sites))
    for path in bytecode(package):
        folder, module = os.path.split(os.path.relpath(path, package))
        for site in sites:
            target = os.path.join(site, folder)
            if os.path.exists(os.path.join(os.path.dirname(target), module.removesuffix(end) + ".py")):
                os.makedirs(target, exist_ok=True)
                shutil.copyfile(path, os.path.join(target, module))
"#;

/// The command by which `uv` does what a command of a step asks `pip` for; `None` if it asks for
/// anything else, or in words that a shell would change.
pub(crate) fn by_uv(command: &Command, text: &str) -> Option<Command> {
    let mut words = text.split_ascii_whitespace();
    let pip = words
        .next()
        .filter(|&name| matches!(name, "pip" | "pip3"))?;
    words.next().filter(|&verb| verb == "install")?;
    let mut arguments = ["/bin/bash", "-l", "-c", SCRIPT, "bash", COMPILE, pip]
        .map(str::to_owned)
        .to_vec();
    let options = arguments.len();
    while let Some(word) = words.next() {
        match word {
            // What is kept is in no layer.
            "--no-cache-dir" => continue,
            "-U" | "--upgrade" | "-q" | "--quiet" | "--no-deps" => {}
            "-r" | "--requirement" => {
                arguments.push(word.to_owned());
                let file = words.next().filter(|file| is_file(file))?;
                arguments.push(file.to_owned());
                continue;
            }
            _ if is_requirement(word) => {}
            _ => return None,
        }
        arguments.push(word.to_owned());
    }
    let is_anything = arguments.len() > options;
    is_anything.then(|| Command {
        arguments,
        ..command.clone()
    })
}

/// Returns true for the name of a package, with extras and a version perhaps.
fn is_requirement(word: &str) -> bool {
    let is_archive = [".whl", ".zip", ".gz", ".bz2", ".xz", ".tar", ".tgz"]
        .iter()
        .any(|end| word.ends_with(end));
    word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !is_archive
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-[],=~+".contains(&b))
}

/// Returns true for a path that no shell changes.
fn is_file(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '/' || first == '.')
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(text: &str) -> Option<Vec<String>> {
        let command = Command {
            arguments: vec![text.to_owned()],
            user: "root".to_owned(),
            directory: None,
            environment: Default::default(),
            timeout: std::time::Duration::ZERO,
        };
        by_uv(&command, text).map(|command| command.arguments[6..].to_vec())
    }

    #[test]
    fn packages_by_name_and_files_of_requirements_are_for_uv() {
        for (text, words) in [
            ("pip install polars", "pip polars"),
            (
                "pip3 install -U six==1.17.0 polars[all]",
                "pip3 -U six==1.17.0 polars[all]",
            ),
            (
                "pip install --no-cache-dir -r /root/a.txt",
                "pip -r /root/a.txt",
            ),
        ] {
            let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(installed(text), Some(words), "{text}");
        }
    }

    #[test]
    fn what_a_shell_would_read_otherwise_or_uv_does_not_know_is_for_pip() {
        for text in [
            "pip install",
            "pip install .",
            "pip install ./six",
            "pip install --user six",
            "pip install six>=1.0",
            "pip install 'six'",
            "pip install six && echo done",
            "pip install $NAME",
            "pip install six.whl",
            "pip install --index-url http://x/ six",
            "pip install -r",
            "pip install git+https://x/y",
            "pip download six",
            "python -m pip install six",
        ] {
            assert_eq!(installed(text), None, "{text}");
        }
    }
}
