use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use super::*;

/// The certificate of an authority that nobody has.
const AUTHORITY: &str = "\
    MIIBlzCCAT2gAwIBAgIUAwr4dmziOMiLbyCfqFl2zITVRs4wCgYIKoZIzj0EAwIwIDEeMBwGA1UEAwwVQW4gYXV0\
    aG9yaXR5IG9mIHRlc3RzMCAXDTI2MTExOTIxMjI0NVoYDzIxMjYxMDI2MjEyMjQ1WjAgMR4wHAYDVQQDDBVBbiBh\
    dXRob3JpdHkgb2YgdGVzdHMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASNPMa746K7iYLMb4BdzJaPtvWP7qQx\
    BHYJkY9+rtjU0nq01XWDMpdZRXyZl9zvc3X+liBhI6WmgYumDEBKcP3wo1MwUTAdBgNVHQ4EFgQUs7ImHRXC77r8\
    gvkw0O33I8LHmH4wHwYDVR0jBBgwFoAUs7ImHRXC77r8gvkw0O33I8LHmH4wDwYDVR0TAQH/BAUwAwEB/zAKBggq\
    hkjOPQQDAgNIADBFAiBgp39L1+GyhT5Ts1wUPeaC63LktiCnx+VTvUqLDzIGDAIhANsYzlRnOovLhHz8MshEC0kn\
    6h/6818CP+Qr0ZBNjVwD";

fn authority() -> Vec<u8> {
    BASE64_STANDARD.decode(AUTHORITY).unwrap()
}

/// A keystore with these entries, each without its digest's help.
fn keystore(count: u32, entries: &[u8]) -> Vec<u8> {
    let mut keystore = MAGIC.to_be_bytes().to_vec();
    keystore.extend(VERSION.to_be_bytes());
    keystore.extend(count.to_be_bytes());
    keystore.extend(entries);
    let digest = digest(&keystore);
    keystore.extend(digest);
    keystore
}

fn certificate_entry(name: &str, certificate: &[u8]) -> Vec<u8> {
    let mut entry = CERTIFICATE.to_be_bytes().to_vec();
    push_text(&mut entry, name);
    entry.extend(7_u64.to_be_bytes());
    push_text(&mut entry, X509);
    entry.extend(u32::try_from(certificate.len()).unwrap().to_be_bytes());
    entry.extend(certificate);
    entry
}

fn key_entry(name: &str) -> Vec<u8> {
    let mut entry = PRIVATE_KEY.to_be_bytes().to_vec();
    push_text(&mut entry, name);
    entry.extend(7_u64.to_be_bytes());
    entry.extend(3_u32.to_be_bytes());
    entry.extend(b"key");
    entry.extend(1_u32.to_be_bytes());
    push_text(&mut entry, X509);
    entry.extend(5_u32.to_be_bytes());
    entry.extend(b"chain");
    entry
}

fn add(keystore: &[u8], certificate: &[u8]) -> Result<Option<Vec<u8>>, KeystoreError> {
    with_certificate(keystore, "ours", certificate, 7)
}

#[test]
fn a_certificate_is_added_once_and_takes_the_place_of_one_with_its_name() {
    let others = [key_entry("key"), certificate_entry("other", b"other")].concat();
    let added = add(&keystore(2, &others), b"new").unwrap().unwrap();
    let ours = certificate_entry("ours", b"new");
    assert_eq!(added, keystore(3, &[others.clone(), ours].concat()));
    assert_eq!(add(&added, b"new").unwrap(), None);
    let ours = certificate_entry("ours", b"newer");
    let replaced = add(&added, b"newer").unwrap().unwrap();
    assert_eq!(replaced, keystore(3, &[others, ours].concat()));
}

#[test]
fn what_is_no_keystore_of_this_kind_is_told_apart() {
    let whole = keystore(1, &certificate_entry("other", b"other"));
    for (bytes, error) in [
        (Vec::new(), KeystoreError::Format),
        (b"0\x82\x01\x02\x02\x01\x03".to_vec(), KeystoreError::Format),
        (
            b"\xce\xce\xce\xce\0\0\0\x02".to_vec(),
            KeystoreError::Format,
        ),
        (
            b"\xfe\xed\xfe\xed\0\0\0\x01".to_vec(),
            KeystoreError::Format,
        ),
        (whole[..30].to_vec(), KeystoreError::Broken),
        (whole[..whole.len() - 1].to_vec(), KeystoreError::Password),
        // The right digest does not make lengths true.
        (
            keystore(2, &certificate_entry("a", b"b")),
            KeystoreError::Broken,
        ),
        (keystore(0, b"more"), KeystoreError::Broken),
        (keystore(u32::MAX, b""), KeystoreError::Broken),
        (
            keystore(1, b"\0\0\0\x03\0\0\0\0\0\0\0\0\0\0"),
            KeystoreError::Broken,
        ),
    ] {
        assert_eq!(add(&bytes, b"new"), Err(error), "{bytes:x?}");
    }
}

proptest! {
    #[test]
    fn no_entries_are_too_strange_to_be_refused(
        count in 0_u32..4,
        entries in prop::collection::vec(0_u8..6, 0..64),
    ) {
        let before = keystore(count, &entries);
        if let Ok(after) = add(&before, b"new") {
            let after = after.unwrap_or(before);
            prop_assert_eq!(add(&after, b"new"), Ok(None));
        }
    }
}

/// The words of `keytool`, where there is one.
fn keytool(folder: &std::path::Path, arguments: &[&str]) -> Option<String> {
    let keystore = folder.join("cacerts");
    let mut keytool = Command::new("keytool");
    keytool.args(arguments).arg("-keystore").arg(keystore);
    let output = keytool.args(["-storepass", PASSWORD]).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn javas_own_tool_reads_what_is_written_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cacerts");
    let pem = format!("-----BEGIN CERTIFICATE-----\n{AUTHORITY}\n-----END CERTIFICATE-----\n");
    std::fs::write(folder.path().join("theirs.crt"), pem).unwrap();
    let theirs = folder.path().join("theirs.crt");
    let import = [
        "-importcert",
        "-noprompt",
        "-storetype",
        "JKS",
        "-alias",
        "theirs",
        "-file",
        theirs.to_str().unwrap(),
    ];
    if keytool(folder.path(), &import).is_none() {
        return;
    }
    let before = std::fs::read(&file).unwrap();
    let after = add(&before, &authority()).unwrap().unwrap();
    std::fs::write(&file, after).unwrap();
    let said = keytool(folder.path(), &["-list"]).unwrap();
    let entries = said.matches("trustedCertEntry").count();
    assert!(entries == 2 && said.contains("ours,"), "{said}");
    let said = keytool(folder.path(), &["-delete", "-alias", "theirs"]).unwrap();
    assert!(!said.contains("rror"), "{said}");
    let kept = std::fs::read(&file).unwrap();
    assert_eq!(add(&kept, &authority()), Ok(None));
}
