use std::fs;

use super::*;

const PLENTY: ListingBudget = ListingBudget {
    entries: 1000,
    bytes: 1 << 20,
};

/// Some directories below each other, in each of which lie files with long names.
fn hostile_tree(names: usize) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let mut directory = tree.path().to_owned();
    for level in 0..8 {
        directory.push(format!("{level}{}", "d".repeat(200)));
        fs::create_dir(&directory).unwrap();
        for name in 0..names {
            fs::write(directory.join(format!("{name}{}", "\u{1}".repeat(200))), "").unwrap();
        }
    }
    tree
}

fn listed(room: ListingBudget, tree: &tempfile::TempDir) -> Result<Vec<EntryInfo>, String> {
    let path = tree.path().to_str().unwrap();
    list_within(room, path, 100, &OwnerNames::default()).map_err(|error| error.to_string())
}

#[test]
fn a_tree_is_listed_if_its_entries_and_their_bytes_are_few_enough() {
    let tree = hostile_tree(4);
    let all = listed(PLENTY, &tree).unwrap();
    assert_eq!(all.len(), 8 * 5);
    let bytes: usize = all.iter().map(size::of_entry).sum();
    let refused = |room: ListingBudget| {
        let path = tree.path().display();
        let ListingBudget { entries, bytes } = room;
        let text = format!(
            "more than {entries} entries, or {bytes} bytes of them, under {path}; list a part of it"
        );
        assert_eq!(listed(room, &tree).unwrap_err(), text);
    };
    refused(ListingBudget {
        entries: all.len() - 1,
        ..PLENTY
    });
    refused(ListingBudget { bytes, ..PLENTY });
    let enough = ListingBudget {
        entries: all.len(),
        ..PLENTY
    };
    assert_eq!(listed(enough, &tree).unwrap().len(), all.len());
}

/// Some thousand entries of this kind would be gigabytes, and fewer than were allowed.
#[test]
fn the_bytes_of_a_hostile_tree_are_counted_and_not_only_its_entries() {
    let tree = hostile_tree(40);
    let few_bytes = ListingBudget {
        entries: MAX_ENTRIES,
        bytes: 1 << 20,
    };
    listed(few_bytes, &tree).unwrap_err();
    // The control: only entries are counted.
    let all = listed(
        ListingBudget {
            bytes: usize::MAX,
            ..few_bytes
        },
        &tree,
    )
    .unwrap();
    assert_eq!(all.len(), 8 * 41);
    assert!(all.iter().map(size::of_entry).sum::<usize>() > few_bytes.bytes);
}

#[test]
fn names_alone_are_counted_before_anything_is_described() {
    let tree = tempfile::tempdir().unwrap();
    for number in 0..100 {
        fs::write(tree.path().join(format!("{number}")), "").unwrap();
    }
    let directory = Directory::find(tree.path()).unwrap();
    let names = OwnerNames::default();
    let mut listing = Listing {
        shown_as: "/",
        names: &names,
        left: ListingBudget {
            bytes: 10 * size_of::<Found>(),
            ..PLENTY
        },
    };
    let read = listing.read(&directory, "", 1).unwrap();
    assert!(read.is_err());
    let looked_at = PLENTY.entries - listing.left.entries;
    assert!(looked_at <= 10, "{looked_at}");
}
