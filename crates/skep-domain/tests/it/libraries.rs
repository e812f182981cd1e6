//! Certificates in the eyes of other TLS libraries.
//!
//! Bun and workerd, which have BoringSSL, are tried by the conformance suites. What it needs is
//! tested here by the form of the certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use skep_domain::{Issued, LocalCa};
use tempfile::TempDir;

/// An authority, and the certificates that it issues, as files.
struct Files {
    directory: TempDir,
    authority: PathBuf,
    named: PathBuf,
    addressed: PathBuf,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ca = LocalCa::open(directory.path(), "skep.localhost", SystemTime::now()).unwrap();
        let Issued { named, addressed } = ca.issue(SystemTime::now()).unwrap();
        let place = |name: &str, certificate: &[u8]| {
            let path = directory.path().join(name);
            fs::write(&path, certificate).unwrap();
            path
        };
        Self {
            authority: ca.certificate_file().to_owned(),
            named: place("named.der", &named.cert[0]),
            addressed: place("addressed.der", &addressed.cert[0]),
            directory,
        }
    }

    /// Writes a program beside them and returns its path.
    fn write(&self, name: &str, source: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, source).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn verifies(&self, certificate: &Path, check: [&str; 2]) -> bool {
        let mut command = Command::new("openssl");
        command.args(["verify", "-x509_strict", "-purpose", "sslserver"]);
        command.arg("-CAfile").arg(&self.authority);
        let done = command.args(check).arg(certificate).output().unwrap();
        done.status.success()
    }
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let output = [done.stdout, done.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(done.status.success(), "{program} {arguments:?}: {output}");
    output
}

#[test]
fn openssl_trusts_names_and_addresses_of_this_host_and_no_others() {
    let files = Files::new();
    for name in ["skep.localhost", "8000-i0.skep.localhost", "localhost"] {
        for certificate in [&files.named, &files.addressed] {
            assert!(
                files.verifies(certificate, ["-verify_hostname", name]),
                "{name}"
            );
        }
    }
    for address in ["127.0.0.1", "::1"] {
        assert!(files.verifies(&files.addressed, ["-verify_ip", address]));
        assert!(!files.verifies(&files.named, ["-verify_ip", address]));
    }
    assert!(!files.verifies(&files.named, ["-verify_hostname", "example.com"]));
    assert!(!files.verifies(&files.addressed, ["-verify_ip", "192.0.2.1"]));
}

/// BoringSSL refuses an address that comes under constraints, and with it the whole certificate.
#[test]
fn a_client_that_asks_for_a_name_sees_no_address() {
    let files = Files::new();
    let names = |certificate: &Path| {
        let certificate = certificate.to_str().unwrap();
        let arguments = ["-noout", "-ext", "subjectAltName", "-in", certificate];
        run("openssl", &[&["x509"], &arguments[..]].concat())
    };
    assert!(names(&files.addressed).contains("IP Address:127.0.0.1"));
    assert!(!names(&files.named).contains("IP Address"));
}

#[test]
fn go_trusts_names_and_addresses_of_this_host_and_no_others() {
    let files = Files::new();
    let program = files.write("verify.go", include_str!("libraries/verify.go"));
    let cache = files.directory.path().join("go-cache");
    check_verifier(&files, || {
        let mut go = Command::new("go");
        go.args(["run", &program]).env("GOCACHE", &cache);
        go.env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "0");
        go
    });
}

#[test]
fn java_trusts_names_and_addresses_of_this_host_and_no_others() {
    let files = Files::new();
    let program = files.write("Verify.java", include_str!("libraries/Verify.java"));
    check_verifier(&files, || {
        let mut java = Command::new("java");
        java.arg(&program);
        java
    });
}

/// Checks what a program of another library says: its arguments are a file with authorities,
/// a certificate, and the name or address that a client asks for.
fn check_verifier(files: &Files, program: impl Fn() -> Command) {
    let says = |authority: &Path, certificate: &Path, name: &str| {
        let mut command = program();
        let done = command
            .arg(authority)
            .arg(certificate)
            .arg(name)
            .output()
            .expect("`make test` installs the compilers");
        let told = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(["trusted", "refused"].contains(&told.as_str()), "{errors}");
        told
    };
    let trusted = |certificate: &Path, name: &str| says(&files.authority, certificate, name);
    assert_eq!(trusted(&files.named, "8000-i0.skep.localhost"), "trusted");
    assert_eq!(trusted(&files.addressed, "127.0.0.1"), "trusted");
    assert_eq!(trusted(&files.named, "example.com"), "refused");
    assert_eq!(trusted(&files.named, "127.0.0.1"), "refused");
    let stranger = Files::new();
    let without = says(&stranger.authority, &files.named, "8000-i0.skep.localhost");
    assert_eq!(without, "refused", "the control");
}

#[test]
fn browsers_libraries_trust_the_names() {
    let files = Files::new();
    let database = format!("sql:{}", files.directory.path().display());
    let certutil = |arguments: &[&str]| run("certutil", &[&["-d", &database], arguments].concat());
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    certutil(&["-N", "--empty-password"]);
    let named = path(&files.named);
    certutil(&["-A", "-n", "named", "-t", ",,", "-i", &named]);
    let verify = ["-V", "-u", "V", "-n", "named", "-e"];
    let mut command = Command::new("certutil");
    let before = command.args(["-d", &database]).args(verify).output();
    assert!(!before.unwrap().status.success(), "the control");
    let authority = path(&files.authority);
    certutil(&["-A", "-n", "ca", "-t", "C,,", "-i", &authority]);
    let told = certutil(&verify);
    assert!(told.contains("certificate is valid"), "{told}");
}
