//! What people say of jobs, to each other and to themselves: tags, opinions, notes, cases, proposals, searches; and who sees it.

mod common;

use common::cluster::{Cluster, SITE};
use serde_json::Value;
use testkit::eventually;

#[test]
fn owners_managers_and_administrators_set_tags() {
    let cluster = Cluster::start(SITE, &[]);
    let iterative = "job_behavior ITERATIVE";
    for (user, job, tag, more, status, said) in [
        ("otto", "7", iterative, "", 200, "\"is_new\":true"),
        ("pia", "7", "job_bug DEADLOCK", "", 200, "\"is_new\":true"),
        ("ada", "424242", iterative, "", 200, "\"is_new\":true"),
        ("ada", "7", iterative, "", 200, "\"is_new\":false"),
        ("sven", "7", iterative, "", 403, "may not tag job 7"),
        ("sven", "7", iterative, "&personal=true", 200, "\"is_new\":true"),
        // Whoever does not see a job hears what they would hear of one that there is not.
        ("eve", "7", iterative, "", 404, "nothing is known of job 7"),
        ("eve", "7777", iterative, "", 404, "nothing is known of job 7777"),
        ("otto", "424242", iterative, "&personal=true", 404, "nothing is known"),
        ("otto", "7", "no such tag", "", 400, "there is no tag"),
        ("otto", "7", iterative, "&reason=%00", 400, "zero byte"),
    ] {
        let (is, text) = cluster.say(user, job, tag, more);
        assert!(is == status && text.contains(said), "{user} {job} {tag}: {is} {text}");
    }
    let tagged = "all=job_behavior%20ITERATIVE";
    for (user, query, jobs) in [
        ("ada", tagged, vec!["424242", "7"]),
        ("otto", tagged, vec!["7"]),
        ("zora", tagged, vec!["424242"]),
        // His own personal one.
        ("sven", tagged, vec!["7"]),
        ("eve", tagged, vec![]),
        ("ada", "tagged_by=otto", vec!["7"]),
        ("ada", "tagged_by=project:physics", vec!["7"]),
        ("ada", "tagged_by=sven", vec![]),
        ("zora", "tagged_by=otto", vec![]),
        ("ada", "tagged=manual", vec!["424242", "7"]),
    ] {
        assert_eq!(cluster.found(user, query), jobs, "{user} {query}");
    }
}

#[test]
fn notes_and_cases_have_the_sight_of_their_jobs() {
    let cluster = Cluster::start(SITE, &[]);
    let (note, case) =
        (r#"{"job": "7", "text": "stops after 500 steps"}"#, r#"{"job": "7", "reason": "idle"}"#);
    for (user, method, path, body, status, said) in [
        ("otto", "POST", "notes", note, 200, "\"note\":3"),
        ("pia", "POST", "notes", note, 200, "\"note\":4"),
        ("eve", "POST", "notes", note, 404, "nothing is known of job 7"),
        ("eve", "POST", "notes", r#"{"program": "/bin/x", "text": "a shell"}"#, 200, "\"note\":5"),
        ("otto", "POST", "notes", r#"{"job": "7", "text": "  "}"#, 400, "no text"),
        ("otto", "POST", "notes", r#"{"text": "about nothing"}"#, 400, "either on a `job` or on a `program`"),
        ("otto", "POST", "notes", "not JSON", 400, "not as it should be"),
        ("otto", "DELETE", "notes/4", "", 403, "note 4 is pia's"),
        ("otto", "DELETE", "notes/1", "", 404, "there is no note 1"),
        ("pia", "DELETE", "notes/4", "", 200, "true"),
        ("pia", "DELETE", "notes/4", "", 404, "there is no note 4"),
        ("otto", "POST", "cases", case, 403, "needs support"),
        ("sven", "POST", "cases", case, 200, "\"case\":2"),
        ("sven", "POST", "cases", r#"{"reason": "of nobody"}"#, 400, "about a `user`"),
        ("sven", "POST", "cases/2", r#"{"text": "called him"}"#, 200, "\"is_open\":true"),
        (
            "sven",
            "POST",
            "cases/2",
            r#"{"text": "uses fewer cores now", "close": true}"#,
            200,
            "\"is_open\":false",
        ),
        ("sven", "POST", "cases/2", r#"{"text": "again"}"#, 404, "no case 2 that is open"),
        ("sven", "POST", "cases/99", r#"{"text": "again"}"#, 404, "no case 99"),
    ] {
        let (is, text) = cluster.change(user, method, path, body);
        assert!(is == status && text.contains(said), "{user} {method} {path} {body}: {is} {text}");
    }
    let seen = |user: &str, path: &str, key: &str| {
        let answer = cluster.get(user, path);
        answer["rows"].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for (user, path, key, expected) in [
        ("otto", "notes", "note", vec![3]),
        ("pia", "notes", "note", vec![3]),
        ("eve", "notes", "note", vec![5]),
        ("zora", "notes", "note", vec![1]),
        ("sven", "notes", "note", vec![5, 3, 2, 1]),
        ("sven", "notes?program=/bin/x", "note", vec![5]),
        ("sven", "notes?program=/home/zora/solver", "note", vec![2]),
        ("sven", "notes?text=500%20STEPS", "note", vec![3]),
        ("otto", "cases", "case", vec![2]),
        ("pia", "cases", "case", vec![2]),
        ("eve", "cases", "case", vec![]),
        ("sven", "cases", "case", vec![2, 1]),
        ("sven", "cases?open=true", "case", vec![1]),
        ("sven", "cases?open=false&text=fewer", "case", vec![2]),
        ("sven", "cases?text=called%20him", "case", vec![2]),
        ("otto", "cases?text=called", "case", vec![2]),
    ] {
        assert_eq!(seen(user, path, key), expected, "{user} {path}");
    }
}

#[test]
fn a_tag_that_is_proposed_is_there_when_it_is_approved() {
    let cluster = Cluster::start(SITE, &[]);
    let proposed = |name: &str, criterion: &str| {
        format!(
            r#"{{"name": "{name}", "description": "It makes a mesh.", "motivation": "to find them", "criterion": {criterion}}}"#
        )
    };
    for (user, path, body, status, said) in [
        ("otto", "proposals", proposed("site MESH", "null"), 200, "\"proposal\":1"),
        ("eve", "proposals", proposed("site WIDE", "\"cores >= 2\""), 200, "\"proposal\":2"),
        ("eve", "proposals", proposed("site X", "\"no_column > 2\""), 400, "no_column"),
        (
            "eve",
            "proposals",
            proposed("job_bug_deadlock", "null"),
            400,
            "there is a tag `job_bug DEADLOCK` already",
        ),
        ("eve", "proposals", proposed("; drop", "null"), 400, "no name for a tag"),
        (
            "eve",
            "proposals",
            r#"{"name": "site Y", "description": " ", "motivation": "x"}"#.to_owned(),
            400,
            "no text",
        ),
        ("otto", "proposals/1", r#"{"approve": true}"#.to_owned(), 403, "needs administrator"),
        ("ada", "proposals/1", r#"{"approve": false}"#.to_owned(), 400, "`reason`"),
        ("ada", "proposals/1", r#"{"approve": false, "reason": "there is one"}"#.to_owned(), 200, "rejected"),
        ("ada", "proposals/1", r#"{"approve": true}"#.to_owned(), 404, "no proposal 1 that waits"),
        ("ada", "proposals/2", r#"{"approve": true, "criterion": "cores >"}"#.to_owned(), 400, "cores >"),
        (
            "ada",
            "proposals/2",
            r#"{"approve": true, "name": "site BROAD", "reason": "a better name"}"#.to_owned(),
            200,
            "approved",
        ),
        ("ada", "proposals/2", r#"{"approve": true}"#.to_owned(), 404, "no proposal 2 that waits"),
    ] {
        let (is, text) = cluster.change(user, "POST", path, &body);
        assert!(is == status && text.contains(said), "{user} {path} {body}: {is} {text}");
    }
    let rows = |user: &str| cluster.get(user, "proposals")["rows"].as_array().unwrap().clone();
    assert_eq!((rows("otto").len(), rows("eve").len(), rows("ada").len(), rows("sven").len()), (1, 1, 2, 2));
    let seen = &rows("eve")[0];
    assert_eq!([&seen["name"], &seen["tag"], &seen["state"]], ["site WIDE", "site BROAD", "approved"]);
    assert_eq!(rows("otto")[0]["reason"], "there is one");
    // The next job that is told has it.
    cluster.send("POST", "accounting", minicbor::to_vec([cluster.job("9", "otto", "physics")]).unwrap());
    assert!(eventually(|| cluster.found("otto", "all=site%20BROAD").contains(&"9".to_owned())));
}

/// Somebody's own tags and those of a project are set, found, shown and counted by those of the space, and are not there for others.
#[test]
fn a_tag_of_a_space_is_not_there_for_others() {
    let cluster = Cluster::start(SITE, &[]);
    let declare =
        |name: &str, more: &str| format!(r#"{{"name": "{name}", "description": "It is so."{more}}}"#);
    let (physics, zoology) = (r#", "project": "physics""#, r#", "project": "zoology-zora""#);
    for (user, method, path, body, status, said) in [
        ("otto", "POST", "tags", declare("my CHAPTER", ""), 200, "personal:otto"),
        ("otto", "POST", "tags", declare("MY_chapter", ""), 400, "there is a tag `my CHAPTER` already"),
        // Nobody else hears that there is one.
        ("eve", "POST", "tags", declare("my CHAPTER", ""), 200, "personal:eve"),
        ("pia", "POST", "tags", declare("mesh COARSE", physics), 200, "project:physics"),
        (
            "otto",
            "POST",
            "tags",
            declare("mesh FINE", physics),
            403,
            "otto has no say in tags of project:physics",
        ),
        ("pia", "POST", "tags", declare("mesh FINE", zoology), 403, "no say in tags of project:zoology-zora"),
        ("ada", "POST", "tags", declare("animal WILD", zoology), 200, "project:zoology-zora"),
        (
            "otto",
            "POST",
            "tags",
            declare("job_bug_deadlock", ""),
            400,
            "there is a tag `job_bug DEADLOCK` already",
        ),
        ("otto", "POST", "tags", declare("; drop", ""), 400, "no name for a tag"),
        ("otto", "POST", "tags", r#"{"name": "a B", "description": " "}"#.into(), 400, "no text"),
        (
            "otto",
            "POST",
            "tags",
            r#"{"name": "a B", "description": "x", "criterion": "cores > 1"}"#.into(),
            400,
            "unknown field `criterion`",
        ),
        (
            "ada",
            "POST",
            "tags/software?tag=mesh%20COARSE&uses=libx.so&has=true",
            String::new(),
            400,
            "general tags",
        ),
    ] {
        let (is, text) = cluster.change(user, method, path, &body);
        assert!(is == status && text.contains(said), "{user} {path} {body}: {is} {text}");
    }
    for (user, job, tag, status, said) in [
        ("otto", "7", "my CHAPTER", 200, "\"is_new\":true"),
        ("pia", "7", "mesh COARSE", 200, "\"is_new\":true"),
        ("ada", "7", "animal WILD", 400, "for jobs of project zoology-zora only"),
        ("otto", "7", "animal WILD", 400, "there is no tag `animal WILD`"),
        ("zora", "424242", "mesh COARSE", 400, "there is no tag `mesh COARSE`"),
        ("sven", "7", "mesh COARSE", 400, "there is no tag `mesh COARSE`"),
    ] {
        let (is, text) = cluster.say(user, job, tag, "");
        assert!(is == status && text.contains(said), "{user} {job} {tag}: {is} {text}");
    }
    // Who sees the tag, finds jobs by it and reads it beside them; of others it is said that there is none.
    for (user, tag, sees) in [
        ("otto", "my%20CHAPTER", vec!["7"]),
        ("otto", "mesh%20COARSE", vec!["7"]),
        ("pia", "mesh%20COARSE", vec!["7"]),
        ("ada", "mesh%20COARSE", vec!["7"]),
        ("eve", "my%20CHAPTER", vec![]),
    ] {
        assert_eq!(cluster.found(user, &format!("all={tag}")), sees, "{user} {tag}");
    }
    for (user, tag) in [
        ("ada", "my CHAPTER"),
        ("pia", "my CHAPTER"),
        ("sven", "mesh COARSE"),
        ("zora", "mesh COARSE"),
        ("eve", "animal WILD"),
    ] {
        let tag = tag.replace(' ', "%20");
        for path in [
            format!("jobs?all={tag}"),
            format!("jobs?none={tag}"),
            format!("tags/count?by=user&tags={tag}"),
            format!("jobs/7/tags?tag={tag}"),
            format!("tags/try?condition=cores%20%3E%200&than={tag}"),
        ] {
            let error = cluster.get(user, &path)["error"].to_string();
            assert!(error.contains("there is no tag"), "{user} {path}: {error}");
        }
    }
    for (user, own) in [
        ("otto", vec!["mesh COARSE", "my CHAPTER"]),
        ("pia", vec!["mesh COARSE"]),
        ("eve", vec!["my CHAPTER"]),
        ("zora", vec!["animal WILD"]),
        ("ada", vec!["animal WILD", "mesh COARSE"]),
        ("sven", vec![]),
    ] {
        let mut seen: Vec<String> = cluster.get(user, "tags")["rows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["space"] != "general")
            .map(|row| row["tag"].as_str().unwrap().to_owned())
            .collect();
        seen.sort();
        assert_eq!(seen, own, "{user}");
    }
    let beside = |user: &str| {
        cluster.get(user, "jobs?columns=job,tags&where=job%3D%277%27")["rows"][0]["tags"].to_string()
    };
    assert!(eventually(|| beside("otto").contains("job_status COMPLETED")), "{}", beside("otto"));
    for (user, own, of_project) in
        [("otto", true, true), ("pia", false, true), ("sven", false, false), ("ada", false, true)]
    {
        let tags = beside(user);
        assert_eq!(
            (tags.contains("my CHAPTER"), tags.contains("mesh COARSE")),
            (own, of_project),
            "{user}: {tags}"
        );
    }
    // At submission, with the tags that the user sees.
    let mut job = cluster.job("9", "otto", "physics");
    job.comment = Some(b"tag:my CHAPTER; tag:mesh COARSE; tag:animal WILD".as_slice().into());
    cluster.send("POST", "accounting", minicbor::to_vec([job]).unwrap());
    let explained = cluster.get("otto", "jobs/9/tags");
    assert_eq!(
        (explained["said"].as_array().unwrap().len(), explained["refused"].as_array().unwrap().len()),
        (2, 1),
        "{explained}"
    );
    assert_eq!(explained["refused"][0]["wish"], "animal WILD");
    assert_eq!(cluster.found("ada", "all=mesh%20COARSE"), ["7", "9"]);
    assert_eq!(cluster.get("pia", "jobs/9/tags")["said"].as_array().unwrap().len(), 1);
    // Given up, it is gone; others of its name are not.
    for (user, tag, status) in [
        ("otto", "mesh%20COARSE", 403),
        ("otto", "animal%20WILD", 404),
        ("otto", "job_bug%20DEADLOCK", 400),
        ("otto", "my%20CHAPTER", 200),
        ("otto", "my%20CHAPTER", 404),
    ] {
        let (is, text) = cluster.change(user, "DELETE", &format!("tags/{tag}"), "");
        assert_eq!(is, status, "{user} {tag}: {text}");
    }
    assert!(!beside("otto").contains("my CHAPTER"));
    let said = cluster.get("otto", "jobs/7/tags")["said"].to_string();
    assert!(said.contains("my CHAPTER, which is no longer declared"), "{said}");
    assert_eq!(cluster.found("eve", "all=my%20CHAPTER"), Vec::<String>::new());
}

#[test]
fn a_search_that_somebody_saves_is_theirs() {
    let cluster = Cluster::start(SITE, &[]);
    let (own, other) = (
        r#"{"name": "mine", "description": "What I look for.", "all": ["job_status COMPLETED"], "where": "cores >= 2"}"#,
        r#"{"name": "mine", "none": ["job_status COMPLETED"]}"#,
    );
    assert!(eventually(|| cluster.found("ada", "all=job_status%20COMPLETED") == ["424242", "7"]));
    for (user, method, path, body, status, said) in [
        ("otto", "POST", "searches", own, 200, "\"is_new\":true"),
        ("otto", "POST", "searches", own, 200, "\"is_new\":false"),
        ("ada", "POST", "searches", other, 200, "\"is_new\":true"),
        // In place of one that is shipped, for her only.
        ("ada", "POST", "searches", r#"{"name": "idle-gpus", "where": "cores > 99"}"#, 200, "true"),
        (
            "otto",
            "POST",
            "searches",
            r#"{"name": "a", "all": ["no such tag"]}"#,
            400,
            "there is no tag `no such tag`",
        ),
        ("otto", "POST", "searches", r#"{"name": "a", "where": "cores >"}"#, 400, "cores >"),
        ("otto", "POST", "searches", r#"{"name": "a"}"#, 400, "finds all jobs"),
        ("otto", "POST", "searches", r#"{"name": "a b", "where": "cores > 1"}"#, 400, "no name for a search"),
        (
            "otto",
            "POST",
            "searches",
            r#"{"name": "help", "where": "cores > 1"}"#,
            400,
            "no name for a search",
        ),
    ] {
        let (is, text) = cluster.change(user, method, path, body);
        assert!(is == status && text.contains(said), "{user} {path} {body}: {is} {text}");
    }
    assert_eq!(cluster.found("otto", "search=mine"), ["7"]);
    assert_eq!(cluster.found("ada", "search=mine"), Vec::<String>::new());
    assert_eq!(cluster.found("ada", "search=idle-gpus"), Vec::<String>::new());
    let error = cluster.get("zora", "jobs?search=mine")["error"].to_string();
    assert!(error.contains("there is no search `mine`"), "{error}");
    let listed = |user: &str| {
        let rows = cluster.get(user, "searches")["rows"].as_array().unwrap().clone();
        let own = |row: &&Value| row["is_own"] == true;
        (
            rows.len(),
            rows.iter().filter(own).map(|row| row["search"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        )
    };
    let shipped = listed("zora").0;
    assert_eq!(listed("otto"), (shipped + 1, vec!["mine".to_owned()]));
    assert_eq!(listed("ada"), (shipped + 1, vec!["idle-gpus".to_owned(), "mine".to_owned()]));
    assert_eq!(cluster.change("ada", "DELETE", "searches/mine", "").0, 200);
    assert_eq!(cluster.change("ada", "DELETE", "searches/mine", "").0, 404);
    assert_eq!(cluster.found("otto", "search=mine"), ["7"]);
}

/// Whether a rule is right is for all who see the job to say; the tag stays, and hiding is for oneself.
#[test]
fn people_agree_disagree_and_hide() {
    let cluster = Cluster::start(SITE, &[]);
    let completed = "job_status%20COMPLETED";
    assert!(eventually(|| cluster.found("ada", &format!("all={completed}")) == ["424242", "7"]));
    for (user, job, tag, word, more, status, said) in [
        ("otto", "7", completed, "disagree", "&reason=it%20failed", 200, "\"version\":1"),
        ("pia", "7", completed, "agree", "", 200, "\"version\":1"),
        ("pia", "7", completed, "disagree", "", 200, "\"version\":1"),
        ("sven", "7", completed, "agree", "", 200, "\"version\":1"),
        ("otto", "7", completed, "hide", "", 200, "\"version\":1"),
        ("zora", "424242", completed, "agree", "&reason=for%20zora", 200, "\"version\":1"),
        ("eve", "7", completed, "agree", "", 404, "nothing is known of job 7"),
        (
            "otto",
            "7",
            "job_status%20FAILED",
            "agree",
            "",
            400,
            "no rule has set `job_status FAILED` on job 7",
        ),
        ("otto", "7", "job_bug%20DEADLOCK", "agree", "", 400, "no rule has set"),
        ("otto", "7", "no%20such", "agree", "", 400, "there is no tag `no such`"),
        ("otto", "7", completed, "love", "", 400, "`love` is no opinion: there are agree, disagree, hide"),
        ("otto", "7", completed, "agree", "&reason=%00", 400, "zero byte"),
        ("pia", "7", completed, "agree", "&undo=true", 200, "\"taken_back\":false"),
    ] {
        let path = format!("jobs/{job}/opinions?tag={tag}&word={word}{more}");
        let (is, text) = cluster.change(user, "POST", &path, "");
        assert!(is == status && text.contains(said), "{user} {path}: {is} {text}");
    }
    let seen = |user: &str, which: &str| {
        let rows = cluster.get(user, &format!("opinions?{which}"))["rows"].as_array().unwrap().clone();
        let word = |row: &Value| format!("{} {}", row["by"].as_str().unwrap(), row["word"].as_str().unwrap());
        let mut words: Vec<String> = rows.iter().map(word).collect();
        words.sort();
        words
    };
    let all = ["otto disagree", "pia disagree", "sven agree"];
    for (user, which, expected) in [
        ("otto", "", vec!["otto disagree", "otto hide", "pia disagree", "sven agree"]),
        ("pia", "", all.to_vec()),
        ("eve", "", vec![]),
        ("zora", "", vec!["zora agree"]),
        ("sven", "", [&all[..], &["zora agree"]].concat()),
        ("ada", "", [&all[..], &["zora agree"]].concat()),
        ("ada", "word=disagree", vec!["otto disagree", "pia disagree"]),
        ("ada", "by=sven", vec!["sven agree"]),
        ("ada", "tag=job_status%20FAILED", vec![]),
    ] {
        assert_eq!(seen(user, which), expected, "{user} {which}");
    }
    let counted = |user: &str| {
        let rows = cluster.get(user, "tags")["rows"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["tag"] == "job_status COMPLETED").unwrap();
        (row["agree"].as_u64().unwrap(), row["disagree"].as_u64().unwrap())
    };
    assert_eq!((counted("ada"), counted("otto"), counted("zora")), ((2, 2), (1, 2), (1, 0)));
    // For him it is hidden, and nowhere gone.
    let beside = |user: &str| {
        let rows = cluster.get(user, "jobs?columns=job,tags&where=job%3D%277%27");
        rows["rows"][0]["tags"].to_string().contains("job_status COMPLETED")
    };
    let is_hidden = |user: &str| {
        let explained = cluster.get(user, &format!("jobs/7/tags?tag={completed}"));
        (explained["tags"][0]["has"] == true, explained["tags"][0]["is_hidden"] == true)
    };
    assert_eq!((beside("otto"), beside("pia"), beside("ada")), (false, true, true));
    assert_eq!((is_hidden("otto"), is_hidden("pia")), ((true, true), (true, false)));
    assert_eq!(cluster.found("otto", &format!("all={completed}")), ["7"]);
    let undo = format!("jobs/7/opinions?tag={completed}&word=hide&undo=true");
    assert!(cluster.change("otto", "POST", &undo, "").1.contains("\"taken_back\":true"));
    assert!(beside("otto"));
}
