use skep_image::CatalogError;

use crate::workshop::{SMALL, Workshop, recipes};

crate::tests! {
    a_template_that_lost_a_layer_is_not_found_but_can_be_built_again,
    templates_are_listed_with_the_sizes_of_their_layers,
    a_template_answers_to_the_name_of_another_until_that_is_built,
}

fn a_template_that_lost_a_layer_is_not_found_but_can_be_built_again() {
    let workshop = Workshop::new();
    let all = recipes([("small", SMALL)]);
    let image = workshop.build(&all, "small").0.unwrap();
    let root = workshop.catalog.layer_path(image.layers[1]);
    let layer = root.parent().unwrap();
    std::fs::remove_dir_all(layer).unwrap();
    let damaged = workshop.catalog.find("small");
    assert!(matches!(damaged, Err(CatalogError::LayerMissing { .. })));
    assert_eq!(workshop.build(&all, "small").0.unwrap(), image);
}

fn templates_are_listed_with_the_sizes_of_their_layers() {
    let workshop = Workshop::new();
    workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    let listed = workshop.catalog.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].description, "three layers");
    let titles: Vec<_> = listed[0].layers.iter().map(|layer| &layer.title).collect();
    assert_eq!(titles, ["bootstrap Debian trixie", "first", "second"]);
}

fn a_template_answers_to_the_name_of_another_until_that_is_built() {
    let workshop = Workshop::new();
    let small_text = SMALL.replace("[from]", "stands_in_for = [\"whole\"]\n[from]");
    let whole = SMALL.replace("small", "whole");
    let all = recipes([("small", &small_text), ("whole", &whole)]);
    let forget = |name: &str| {
        std::fs::remove_file(workshop.path(&format!("images/{name}.json"))).unwrap();
    };
    let names = || -> Vec<Vec<String>> {
        let listed = workshop.catalog.list().unwrap().into_iter();
        listed.map(|template| template.names).collect()
    };
    let small = workshop.build(&all, "small").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(small));
    assert_eq!(names(), [["small", "whole"]]);

    // One that has more in it comes nearer, whatever it is called.
    let more = "\n[[step]]\nrun = \"touch third\"\n";
    let larger = small_text.replace("\"small\"", "\"larger\"") + more;
    let larger = recipes([("larger", larger.as_str())]);
    let larger = workshop.build(&larger, "larger").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(larger));
    assert_eq!(names(), [vec!["larger", "whole"], vec!["small"]]);
    forget("larger");

    let whole = workshop.build(&all, "whole").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(whole));
    assert_eq!(names(), [["small"], ["whole"]]);

    forget("whole");
    let found = workshop.catalog.find("whole").unwrap().unwrap();
    assert_eq!(found.name, "small");
}
