//! What people say of jobs counts, whatever rules decide, and is seen by those who may see it.

use record::accounting::{Accounting, State};
use store::jobs::{Origin, Page, Period, Tagged, Wanted, Which, column};
use store::query::tags::{Explain, Opinions, TagsBy};
use store::sight::Sight;
use store::tags::{Assignment, Opinion, PIECE, Word};
use store::{Accounts, Filter, Forget, Limits, Store, Writer};
use tags::{Name, Search, Space};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_800_000_000 * SECOND;

const COMPLETED: &str = "job_status COMPLETED";
const ITERATIVE: &str = "job_behavior ITERATIVE";

fn job(number: u64, user: &str, comment: Option<&str>) -> Accounting {
    Accounting {
        job: Some(number.to_string()),
        shown: number.to_string(),
        user: Some(user.into()),
        account: Some("physics".into()),
        comment: comment.map(|text| text.as_bytes().into()),
        submit: Some(START + number),
        start: Some(START + number),
        end: Some(START + 3600 * SECOND),
        elapsed: Some(3600 * SECOND),
        state: Some(State::Completed),
        nodes: Some(1),
        cpus: Some(2),
        node_list: Some("n1".into()),
        ..Accounting::default()
    }
}

struct Jobs {
    dir: tempfile::TempDir,
    store: Store,
    writer: Writer,
}

impl Jobs {
    fn told(jobs: &[Accounting]) -> Jobs {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &Limits::default()).unwrap();
        let writer = store.writer().unwrap();
        let mut all = Jobs { dir, store, writer };
        all.tell(jobs);
        all
    }

    fn tell(&mut self, jobs: &[Accounting]) {
        self.writer.account(&Accounts::of(jobs).unwrap()).unwrap();
        self.judge();
    }

    fn judge(&mut self) {
        while !self.writer.judge_due(PIECE).unwrap().is_last {}
    }

    fn run(&mut self) {
        self.writer.begin_run(None, None).unwrap();
        while !self.writer.judge_piece(PIECE).unwrap().is_last {}
    }

    fn id(&self, job: u64) -> u64 {
        let filter = Filter { job: Some(job.to_string()), ..Filter::default() };
        self.store.reader().unwrap().owned(&filter).unwrap().unwrap().id
    }

    fn say(&mut self, job: u64, tag: &str, is_set: bool, by: &str, is_personal: bool) -> bool {
        let id = self.id(job);
        let tag = self.store.tags().named(tag).unwrap().tag.declared.id;
        let reason = Some("because".to_owned());
        self.writer
            .assign(&Assignment {
                id,
                tag,
                is_set,
                is_personal,
                by: by.into(),
                by_administrator: by == "ada",
                reason,
            })
            .unwrap()
    }

    fn wanted(&self, tag: &str) -> Wanted {
        self.wanted_by(&Sight::All, tag)
    }

    fn wanted_by(&self, sight: &Sight, tag: &str) -> Wanted {
        let declared = self.store.tags().seen_by(sight);
        Wanted::of(&declared, declared.named(tag).unwrap())
    }

    fn found(&self, sight: &Sight, tagged: Tagged) -> Vec<String> {
        let columns = vec![column("job").unwrap().clone()];
        let page = Page {
            columns,
            sort: column("job").unwrap().clone(),
            is_ascending: true,
            limit: None,
            after: None,
        };
        let which = Which { tagged, ..Which::default() };
        let reader = self.store.reader_with(sight).unwrap();
        let rows = reader.jobs(&which, &page).unwrap().rows();
        assert_eq!(reader.count_jobs(&which).unwrap(), rows.len() as u64);
        rows.iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect()
    }

    /// As those see it whose project the jobs are of.
    fn having(&self, tag: &str) -> Vec<String> {
        let projects = vec!["physics".to_owned()];
        self.having_by(&Sight::Own { user: "paul".into(), member_of: projects.clone(), projects }, tag)
    }

    fn having_by(&self, sight: &Sight, tag: &str) -> Vec<String> {
        self.found(sight, Tagged { all: vec![self.wanted_by(sight, tag)], ..Tagged::default() })
    }

    fn explained(&self, job: &str) -> serde_json::Value {
        let filter = Filter { job: Some(job.into()), ..Filter::default() };
        let what = Explain { filter, ..Explain::default() };
        self.store.reader().unwrap().explain_tags(&what).unwrap().unwrap()
    }

    /// Jobs with a tag, as the list of tags counts them.
    fn counted(&self, tag: &str) -> (u64, u64) {
        let rows = self.store.reader().unwrap().tag_list(Period::default()).unwrap();
        let row = rows.iter().find(|row| row["tag"] == tag).unwrap();
        (row["jobs"].as_u64().unwrap(), row["set_by_people"].as_u64().unwrap())
    }
}

#[test]
fn the_last_word_of_people_counts() {
    let mut jobs = Jobs::told(&[job(1, "anna", None), job(2, "otto", None), job(3, "anna", None)]);
    assert_eq!(jobs.having(COMPLETED), ["1", "2", "3"]);
    assert_eq!(jobs.having(ITERATIVE), [""; 0]);
    assert!(jobs.say(1, ITERATIVE, true, "anna", false));
    assert!(!jobs.say(1, ITERATIVE, true, "anna", false), "said before");
    assert_eq!(jobs.having(ITERATIVE), ["1"]);
    assert_eq!(jobs.counted(ITERATIVE), (1, 1));

    // What a rule has set, somebody takes off: it stays off, whatever comes.
    assert!(jobs.say(2, COMPLETED, false, "otto", false));
    assert_eq!(jobs.having(COMPLETED), ["1", "3"]);
    jobs.tell(&[job(2, "otto", None)]);
    jobs.run();
    assert_eq!(jobs.having(COMPLETED), ["1", "3"]);
    assert_eq!(jobs.having(ITERATIVE), ["1"], "no run withdraws what people say");
    // The store is opened again.
    let Jobs { dir, store, writer } = jobs;
    drop((writer, store));
    let store = Store::open(dir.path(), &Limits::default()).unwrap();
    let writer = store.writer().unwrap();
    let mut jobs = Jobs { dir, store, writer };
    jobs.run();
    assert_eq!(
        (jobs.having(COMPLETED), jobs.having(ITERATIVE)),
        (vec!["1".into(), "3".into()], vec!["1".into()])
    );

    // Until somebody says something else.
    assert!(jobs.say(2, COMPLETED, true, "otto", false));
    jobs.judge();
    assert_eq!(jobs.having(COMPLETED), ["1", "2", "3"]);
    assert_eq!(jobs.counted(COMPLETED), (3, 1), "a job that both say it of is counted once");
    assert!(jobs.say(1, ITERATIVE, false, "anna", false));
    assert_eq!(jobs.having(ITERATIVE), [""; 0]);

    // All of it is kept.
    let said = jobs.explained("2")["said"].clone();
    let said: Vec<_> = said
        .as_array()
        .unwrap()
        .iter()
        .map(|said| (said["has"].as_bool(), said["until"].is_null()))
        .collect();
    assert_eq!(said, [(Some(false), false), (Some(true), true)]);
}

#[test]
fn filters_know_who_has_set_a_tag() {
    let mut jobs = Jobs::told(&[job(1, "anna", None), job(2, "otto", None), job(3, "anna", None)]);
    jobs.say(1, ITERATIVE, true, "anna", false);
    jobs.say(2, ITERATIVE, true, "pia", false);
    let (iterative, completed) = (jobs.wanted(ITERATIVE), jobs.wanted(COMPLETED));
    let by = |names: &[&str]| Tagged {
        by: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Tagged::default()
    };
    for (tagged, expected) in [
        (Tagged { all: vec![iterative, completed], ..Tagged::default() }, vec!["1", "2"]),
        (Tagged { none: vec![iterative], all: vec![completed], ..Tagged::default() }, vec!["3"]),
        (Tagged { any: vec![vec![iterative]], ..Tagged::default() }, vec!["1", "2"]),
        (Tagged { origin: Some(Origin::Person), ..Tagged::default() }, vec!["1", "2"]),
        (Tagged { origin: Some(Origin::Rule), ..Tagged::default() }, vec!["1", "2", "3"]),
        (by(&["anna"]), vec!["1"]),
        (by(&["anna", "pia"]), vec!["1", "2"]),
        (by(&["eve"]), vec![]),
        (by(&[]), vec![]),
    ] {
        assert_eq!(jobs.found(&Sight::All, tagged.clone()), expected, "{tagged:?}");
    }
    let by_user = TagsBy::named("user").unwrap();
    let rows = jobs.store.reader().unwrap().count_tags(&Which::default(), by_user).unwrap();
    let counted: Vec<_> = rows
        .iter()
        .filter(|row| row["tag"] == ITERATIVE)
        .map(|row| (row["user"].as_str().unwrap(), row["jobs"].as_u64().unwrap()))
        .collect();
    assert_eq!(counted, [("anna", 1), ("otto", 1)]);
}

#[test]
fn sight_belongs_to_the_assignment() {
    let mut jobs = Jobs::told(&[job(1, "anna", None)]);
    jobs.say(1, ITERATIVE, true, "anna", false);
    jobs.say(1, "job_bug DEADLOCK", true, "pia", true);
    let own = |user: &str, projects: &[&str]| {
        let projects: Vec<String> = projects.iter().map(|name| (*name).to_owned()).collect();
        Sight::Own { user: user.into(), member_of: projects.clone(), projects }
    };
    for (sight, iterative, personal, completed) in [
        (own("anna", &[]), 1, 0, 1),
        (own("pia", &["physics"]), 1, 1, 1),
        (own("eve", &[]), 0, 0, 0),
        // Sees all jobs, but is not of the project.
        (Sight::Support { user: "sven".into(), member_of: vec![] }, 0, 0, 1),
        (Sight::Administrator { user: "ada".into() }, 1, 0, 1),
        (Sight::Administrator { user: "pia".into() }, 1, 1, 1),
    ] {
        let count =
            |tag: &str| jobs.found(&sight, Tagged { all: vec![jobs.wanted(tag)], ..Tagged::default() }).len();
        assert_eq!(
            (count(ITERATIVE), count("job_bug DEADLOCK"), count(COMPLETED)),
            (iterative, personal, completed),
            "{sight:?}"
        );
        let filter = Filter { job: Some("1".into()), ..Filter::default() };
        let what = Explain { filter, ..Explain::default() };
        let explained = jobs.store.reader_with(&sight).unwrap().explain_tags(&what).unwrap();
        let said = explained.map_or(0, |explained| explained["said"].as_array().unwrap().len());
        assert_eq!(said, iterative + personal, "{sight:?}");
    }
    // Whoever is forgotten has said nothing, to nobody.
    let (own, space) = (Name::try_from("pia OWN".to_owned()).unwrap(), Space::Personal("pia".into()));
    jobs.writer.declare_own(&own, &space, "For Pia.", "pia").unwrap().unwrap();
    let search = Search { name: "pias".into(), ..Search::default() };
    jobs.writer.save_search(&search, "pia").unwrap();
    let id = jobs.id(1);
    let tag = jobs.store.tags().named(COMPLETED).unwrap().tag.declared.id;
    let opinion = Opinion { id, tag, version: 1, word: Word::Agree, by: "pia".into(), reason: None };
    jobs.writer.opine(&opinion).unwrap();
    let opinions = |jobs: &Jobs| jobs.store.reader().unwrap().opinions(&Opinions::default()).unwrap().len();
    assert_eq!((opinions(&jobs), jobs.store.tags().named("pia OWN").is_some()), (1, true));
    jobs.writer.forget(&Forget::User("pia".into())).unwrap();
    assert_eq!((opinions(&jobs), jobs.store.tags().named("pia OWN").is_some()), (0, false));
    assert_eq!(jobs.store.reader().unwrap().saved_searches().unwrap().len(), 0);
    assert_eq!(jobs.having("job_bug DEADLOCK"), [""; 0]);
    assert_eq!(jobs.having(ITERATIVE), ["1"]);
}

#[test]
fn tags_are_wished_at_submission() {
    let wish = "my comment; tag:job_behavior ITERATIVE; tag:no such tag";
    let mut jobs = Jobs::told(&[job(1, "anna", Some(wish)), job(2, "anna", Some("tag:job_bug DEADLOCK"))]);
    assert_eq!(
        (jobs.having(ITERATIVE), jobs.having("job_bug DEADLOCK")),
        (vec!["1".into()], vec!["2".into()])
    );
    let explained = jobs.explained("1");
    assert_eq!(explained["said"][0]["by"], "anna");
    assert_eq!(explained["said"][0]["at_submission"], true);
    assert_eq!(explained["refused"][0]["wish"], "no such tag");
    assert!(explained["refused"][0]["why"].as_str().unwrap().contains("jobglass tags list"));
    // Told again, the wish does not bring back what was taken off, and is refused once.
    jobs.say(1, ITERATIVE, false, "anna", false);
    jobs.tell(&[job(1, "anna", Some(wish))]);
    assert_eq!(jobs.having(ITERATIVE), [""; 0]);
    let explained = jobs.explained("1");
    assert_eq!(explained["refused"].as_array().unwrap().len(), 1);
}

#[test]
fn support_still_finds_a_tag_that_an_owner_has_removed() {
    let mut jobs = Jobs::told(&[job(1, "anna", None), job(2, "anna", None), job(3, "anna", None)]);
    jobs.say(1, COMPLETED, false, "anna", false);
    jobs.say(2, COMPLETED, false, "ada", false);
    let support = Sight::Support { user: "sven".into(), member_of: vec![] };
    let administrator = Sight::Administrator { user: "ada".into() };
    let anna = Sight::Own { user: "anna".into(), projects: vec![], member_of: vec![] };
    let is_removed = |jobs: &Jobs, sight: &Sight| {
        let filter = Filter { job: Some("1".into()), ..Filter::default() };
        let what = Explain { filter, tag: Some(COMPLETED.into()), ..Explain::default() };
        let explained = jobs.store.reader_with(sight).unwrap().explain_tags(&what).unwrap().unwrap();
        explained["tags"].as_array().unwrap().iter().any(|tag| tag["is_removed"] == true)
    };
    for _ in 0..2 {
        for (sight, found) in [(&support, &["1", "3"][..]), (&administrator, &["1", "3"]), (&anna, &["3"])] {
            assert_eq!(jobs.having_by(sight, COMPLETED), found, "{sight:?}");
            assert_eq!(is_removed(&jobs, sight), found.contains(&"1"), "{sight:?}");
        }
        // Told again and evaluated again, it stays so.
        jobs.tell(&[job(1, "anna", None), job(2, "anna", None)]);
        jobs.run();
    }
    // An administrator removes it for everybody.
    assert!(jobs.say(1, COMPLETED, false, "ada", false));
    assert_eq!(jobs.having_by(&support, COMPLETED), ["3"]);
    // Whoever sets it again says so to those who see what people say.
    assert!(jobs.say(1, COMPLETED, true, "anna", false));
    jobs.judge();
    assert_eq!(jobs.having_by(&anna, COMPLETED), ["1", "3"]);
    assert_eq!(jobs.having_by(&support, COMPLETED), ["1", "3"], "its rule says so as well");
}
