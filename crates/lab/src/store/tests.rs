use super::*;
use crate::import;

const NOTEBOOK: &str = include_str!("../../tests/data/notebook.md");
const RESULT: &str = include_str!("../../tests/data/results.jsonl");

fn filled(folder: &Path) -> Store {
    let mut store = Store::open(folder).unwrap();
    for (file, text) in [("notebook.md", NOTEBOOK), ("results.jsonl", RESULT)] {
        for found in import::runs(file, text) {
            let parcel = Parcel {
                run: &found.run,
                records: &found.records,
                texts: vec![("table.txt", &found.text)],
                files: Vec::new(),
            };
            assert_eq!(store.add(&parcel).unwrap(), Added::New);
            assert_eq!(store.add(&parcel).unwrap(), Added::Known);
        }
    }
    store
}

#[test]
fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 7);
    let before: Vec<_> = import::runs("results.jsonl", RESULT);
    let evidence = store
        .evidence(vec![store.one(&before[0].run.id[..6]).unwrap()])
        .unwrap();
    assert_eq!(evidence[0].run, before[0].run);
    assert_eq!(evidence[0].records, before[0].records);
    assert_eq!(
        store.text(&before[0].run.id, "table.txt").unwrap(),
        before[0].text
    );
    assert_eq!(store.text(&before[0].run.id, "server.log"), None);
    assert!(store.records(&before[1].run.id).unwrap().is_empty());
}

#[test]
fn an_index_that_is_gone_or_behind_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let runs = filled(folder.path()).runs().unwrap();
    fs::remove_file(folder.path().join("index.sqlite")).unwrap();
    let mut again: Vec<String> = Store::open(folder.path())
        .unwrap()
        .runs()
        .unwrap()
        .into_iter()
        .map(|run| run.id)
        .collect();
    again.sort();
    let mut ids: Vec<String> = runs.iter().map(|run| run.id.clone()).collect();
    ids.sort();
    assert_eq!(again, ids);
    fs::remove_dir_all(folder.path().join("runs").join(&ids[0])).unwrap();
    fs::create_dir(folder.path().join("runs/.new-half")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.runs().unwrap().len(), 6);
    assert!(
        store
            .history("request_throughput")
            .unwrap()
            .iter()
            .all(|one| one.run != ids[0])
    );
}

#[test]
fn runs_are_chosen_by_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let count = |text: &str| {
        let chosen = store.select(&text.parse().unwrap());
        chosen
            .map(|runs| runs.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(count("Tiny-1B FUSE=1"), Ok(2));
    assert_eq!(count("subject=Tiny*,env.FUSE=0"), Ok(1));
    assert_eq!(count("model=Other-7B,note=before"), Ok(1));
    assert_eq!(count("file=*.jsonl"), Ok(2));
    assert_eq!(count("load=*n=100*"), Ok(6));
    assert_eq!(
        count("nothing"),
        Err(
            "no run fits \"nothing\"; there are subjects Other-7B after | Other-7B before | \
             Tiny-1B FUSE=0 | Tiny-1B FUSE=1 | nightly | tiny"
                .to_owned()
        )
    );
    let near = count("Other-7B aftr").unwrap_err();
    assert!(
        near.ends_with("; did you mean \"Other-7B after\"?"),
        "{near}"
    );
    assert!(matches!(store.one(""), Err(StoreError::Ambiguous { .. })));
    assert!(matches!(store.one("zz"), Err(StoreError::Unknown { .. })));
}

#[test]
fn a_history_is_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let history = store.history("request_throughput").unwrap();
    let tiny: Vec<f64> = history
        .iter()
        .filter(|sample| sample.subject.starts_with("Tiny"))
        .map(|sample| sample.value)
        .collect();
    assert_eq!(tiny, [5.68, 5.86, 5.55]);
    assert!(store.history("no_such_metric").unwrap().is_empty());
}

#[test]
fn a_damaged_folder_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("runs/aaaa");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join(RUN), "{}").unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("run.json is damaged: missing field"),
        "{error}"
    );
}

#[test]
fn a_damaged_index_is_made_again_from_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = filled(folder.path()).runs().unwrap();
    let path = folder.path().join("index.sqlite");
    let whole = fs::read(&path).unwrap();
    let by_id = |mut runs: Vec<Run>| {
        runs.sort_by(|one, two| one.id.cmp(&two.id));
        runs
    };
    let expected = by_id(runs);
    let mut mended = 0;
    // the head of the file, and places all over it
    for at in (0..100).step_by(9).chain((100..whole.len()).step_by(701)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(by_id(store.runs().unwrap()), expected, "byte {at}");
        if let Some(note) = store.note() {
            assert!(
                note.contains("index.sqlite was made again from the runs"),
                "{note}"
            );
            mended += 1;
        }
    }
    assert!(mended > 10, "{mended}");
    fs::write(&path, "not a database at all").unwrap();
    assert!(Store::open(folder.path()).unwrap().note().is_some());
    assert_eq!(
        Store::open(folder.path()).unwrap().note(),
        None,
        "it is said once"
    );
}
