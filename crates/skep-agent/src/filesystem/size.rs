//! Size of descriptions of files, which hostile trees make as large as they can.

use skep_wire::rpc::filesystem::EntryInfo;

/// The bytes that a description takes in memory, and at most on the wire.
pub(super) fn of_entry(entry: &EntryInfo) -> usize {
    let metadata = entry.metadata.iter().map(|(key, value)| {
        let strings = 2 * size_of::<String>();
        strings + of_text(key) + of_text(value)
    });
    let texts = [
        &entry.name,
        &entry.path,
        &entry.permissions,
        &entry.owner,
        &entry.group,
    ]
    .into_iter()
    .chain(&entry.symlink_target)
    .map(|text| of_text(text));
    size_of::<EntryInfo>() + texts.chain(metadata).sum::<usize>()
}

/// The same of a text. JSON escapes some characters.
pub(super) fn of_text(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        0..0x20 => r"\u0000".len(),
        b'"' | b'\\' => 2,
        _ => 1,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_not_larger_on_the_wire_than_it_is_said_to_be() {
        for text in [
            "plain",
            "a\"b\\c",
            "\u{1}\u{2}\n\t\u{7f}",
            "Füße",
            "\u{fffd}",
        ] {
            let texts = [text; 6].map(str::to_owned);
            let [name, path, permissions, owner, group, target] = texts;
            let metadata = [(text.to_owned(), text.to_owned())];
            let entry = EntryInfo {
                name,
                path,
                permissions,
                owner,
                group,
                symlink_target: Some(target),
                metadata: metadata.into(),
                size: i64::MAX,
                mode: u32::MAX,
                is_symlink: true,
                ..EntryInfo::default()
            };
            let json = serde_json::to_vec(&entry).unwrap().len();
            assert!(json <= of_entry(&entry), "{text:?}: {json}");
        }
    }
}
