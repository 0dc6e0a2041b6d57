//! Tags: which there are, how many jobs have them, why, and what a new rule would find.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use condition::Condition;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::Filter;
use store::jobs::{FIXED, Origin, Period, Tagged, Wanted, Which};
use store::query::tags::{Explain, TagsBy, run_row};
use store::tags::{Declared, Kind, Known, Software, wished};
use tags::Space;
use utoipa::IntoParams;

use crate::app::App;
use crate::asker::{Admin, Asker, Support};
use crate::assign::check_reason;
use crate::error::ApiError;
use crate::jobs::Jobs;
use crate::read::{Asked, Rows, asked, check_glob, check_long_text, check_text, nanos};
use crate::readers::ask;
use crate::writing::write;

/// Tags of one question.
const TAGS_MAX: usize = 100;

/// Which tags jobs must have, as it is written: names with commas between them.
#[derive(Debug, Default, Clone)]
pub struct Typed {
    pub all: Option<String>,
    pub any: Option<String>,
    pub none: Option<String>,
}

impl Typed {
    /// By the tags that are declared.
    pub fn tagged(&self, declared: &Declared) -> Result<Tagged, ApiError> {
        let names = |list: &str| -> Vec<String> {
            list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let list = |list: &Option<String>| names(list.as_deref().unwrap_or_default());
        let any = self.any.iter().flat_map(|lists| lists.split(';')).map(names);
        combined(declared, &list(&self.all), &any.collect::<Vec<_>>(), &list(&self.none))
    }
}

pub fn combined(
    declared: &Declared,
    all: &[String],
    any: &[Vec<String>],
    none: &[String],
) -> Result<Tagged, ApiError> {
    let count = all.len() + none.len() + any.iter().map(Vec::len).sum::<usize>();
    if count > TAGS_MAX {
        return Err(ApiError::BadRequest(format!(
            "{count} tags are named, at most {TAGS_MAX} can be asked for at a time"
        )));
    }
    let tags =
        |names: &[String]| names.iter().map(|name| wanted(declared, name)).collect::<Result<Vec<_>, _>>();
    Ok(Tagged {
        all: tags(all)?,
        any: any.iter().map(|names| tags(names)).collect::<Result<_, _>>()?,
        none: tags(none)?,
        ..Tagged::default()
    })
}

/// By any of its names.
pub fn known<'a>(declared: &'a Declared, name: &str) -> Result<&'a Known, ApiError> {
    let known = declared.named(name);
    known.ok_or_else(|| ApiError::BadRequest(format!("there is no tag `{name}`: see jobglass tags list")))
}

/// The id of a tag that has a rule.
fn with_rule(declared: &Declared, name: &str) -> Result<u32, ApiError> {
    let known = known(declared, name)?;
    match known.rule() {
        Some(_) => Ok(known.tag.declared.id),
        None => {
            Err(ApiError::BadRequest(format!("`{}` has no rule: people set it", known.tag.declared.name)))
        }
    }
}

fn wanted(declared: &Declared, name: &str) -> Result<Wanted, ApiError> {
    Ok(Wanted::of(declared, known(declared, name)?))
}

/// Who has set a tag: a user, or `project:NAME` for all who are in it.
pub fn people(app: &App, text: &str) -> Vec<String> {
    match text.strip_prefix("project:") {
        Some(project) => app.readers.people().members(project).into_iter().collect(),
        None => vec![text.to_owned()],
    }
}

/// `auto` or `manual`.
pub fn origin(text: &str) -> Result<Origin, ApiError> {
    match text {
        "auto" => Ok(Origin::Rule),
        "manual" => Ok(Origin::Person),
        _ => Err(ApiError::BadRequest(format!("tags are set `auto` or `manual`, not `{text}`"))),
    }
}

/// Of which time jobs are counted; of all unless given.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct When {
    /// Jobs that waited or ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Jobs that waited or ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// Tags that are declared, with how many jobs have them.
#[utoipa::path(get, path = "/api/v1/tags", params(When), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn list(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<When>,
) -> Result<Json<Rows>, ApiError> {
    let When { since, until } = asked(query)?;
    let period = Period { since_ns: since.map(nanos), until_ns: until.map(nanos) };
    Ok(Rows::new(ask(&app, &asker.sight, move |reader| reader.tag_list(period)).await?, u64::MAX))
}

/// Which jobs are counted, and by what.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Count {
    /// cluster, user, project, partition, state, day, hour, weekday or month.
    by: String,
    /// A condition on the columns of `/api/v1/jobs/columns`.
    r#where: Option<String>,
    /// Whatever waited or ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever waited or ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Only these tags, with commas between them.
    tags: Option<String>,
}

/// How many jobs have each tag, by what they have in common.
#[utoipa::path(get, path = "/api/v1/tags/count", params(Count), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn count(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Count>,
) -> Result<Json<Rows>, ApiError> {
    let Count { by, r#where, since, until, tags } = asked(query)?;
    let by = TagsBy::named(&by).ok_or_else(|| {
        let known: Vec<&str> = TagsBy::names().collect();
        ApiError::BadRequest(format!("tags cannot be counted by `{by}`, but by {}", known.join(", ")))
    })?;
    let declared = app.readers.tags(&asker.sight);
    let chosen = Typed { any: tags.clone(), ..Typed::default() }.tagged(&declared)?;
    let which = Jobs::of(r#where, since, until).which(&FIXED, &declared)?;
    let rows = ask(&app, &asker.sight, move |reader| reader.count_tags(&which, by)).await?;
    let is_chosen = |row: &Map<String, Value>| {
        let known = row["tag"].as_str().and_then(|name| declared.named(name));
        let is_chosen = |known: &Known| chosen.any.iter().flatten().any(|of| of.tag == known.tag.declared.id);
        tags.is_none() || known.is_some_and(is_chosen)
    };
    Ok(Rows::new(rows.into_iter().filter(is_chosen).collect(), u64::MAX))
}

/// What of a job's tags is explained.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Why {
    cluster: Option<String>,
    /// Also the tags that it has not.
    #[serde(default)]
    why_not: bool,
    /// Only this tag.
    tag: Option<String>,
}

/// Why a job has its tags: the values, the bounds, and the version of the rule that decided.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/tags", params(("id" = String, Path), Why), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404)))]
pub async fn explain(
    asker: Asker,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    query: Asked<Why>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let Why { cluster, why_not, tag } = asked(query)?;
    [Some(&id), cluster.as_ref(), tag.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(|text| check_text(text))?;
    if let Some(tag) = &tag {
        known(&app.readers.tags(&asker.sight), tag)?;
    }
    let what = Explain {
        filter: Filter { cluster, job: Some(id.clone()), ..Filter::default() },
        // Whoever asks for one tag wants to know.
        why_not: why_not || tag.is_some(),
        tag,
    };
    let found = ask(&app, &asker.sight, move |reader| reader.explain_tags(&what)).await?;
    found.map(Json).ok_or_else(|| ApiError::NotFound(format!("nothing is known of job {id}")))
}

/// Which condition is tried, and on which jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Try {
    /// As the criterion of a tag has it.
    condition: String,
    /// A tag to compare with.
    than: Option<String>,
    /// Whatever waited or ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever waited or ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// What a new rule would find; nothing is changed.
#[utoipa::path(get, path = "/api/v1/tags/try", params(Try), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403)))]
pub async fn trial(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Try>,
) -> Result<Json<Value>, ApiError> {
    let Try { condition, than, since, until } = asked(query)?;
    check_long_text(&condition)?;
    let condition = Condition::asked(&condition, &FIXED.catalogue)
        .map_err(|error| ApiError::BadRequest(error.to_string()))?;
    let than = than.map(|name| wanted(&app.readers.tags(&asker.sight), &name)).transpose()?;
    let which = Which { since_ns: since.map(nanos), until_ns: until.map(nanos), ..Which::default() };
    Ok(Json(ask(&app, &asker.sight, move |reader| reader.try_condition(&which, &condition, than)).await?))
}

/// Which jobs are judged again.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NewRun {
    /// Submitted at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// By the rule of this tag only; the others stay as they were decided.
    tag: Option<String>,
}

/// Begins to judge the whole collection by the rules of now; a run that is under way is given up for it.
#[utoipa::path(post, path = "/api/v1/tags/run", params(NewRun), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 503)))]
pub async fn begin_run(
    Admin(asker): Admin,
    State(app): State<Arc<App>>,
    query: Asked<NewRun>,
) -> Result<Json<Value>, ApiError> {
    let NewRun { since, tag } = asked(query)?;
    let since = since.map(nanos);
    let tag = tag.map(|name| with_rule(&app.readers.tags(&asker.sight), &name)).transpose()?;
    let run = write(&app, &asker, move |writer| writer.begin_run(since, tag)).await?;
    tracing::info!(by = asker.name, jobs = run.jobs, rules = run.rules, "judging the whole collection");
    Ok(Json(Value::from(run_row(&run))))
}

/// How far the last run is; null if there was none.
#[utoipa::path(get, path = "/api/v1/tags/run", security(("token" = [])),
    responses((status = 200, body = Object), (status = 401), (status = 403)))]
pub async fn last_run(Support(asker): Support, State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let run = ask(&app, &asker.sight, |reader| reader.last_run()).await?;
    Ok(Json(json!({"run": run.as_ref().map(run_row)})))
}

/// A tag on software.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OnSoftware {
    /// A tag that is declared and available.
    tag: String,
    /// A library: a pattern for its name, or for its path (with a `/` in it), a build-id or a content hash.
    uses: Option<String>,
    /// A program, in the same way.
    runs: Option<String>,
    /// Whether it is put on, or taken off.
    has: bool,
    /// Why.
    reason: Option<String>,
}

impl OnSoftware {
    fn software(&self) -> Result<Software, ApiError> {
        let (of, pattern) = match (&self.uses, &self.runs) {
            (Some(pattern), None) => (Kind::Loaded, pattern),
            (None, Some(pattern)) => (Kind::Program, pattern),
            _ => return Err(ApiError::BadRequest("either `uses` or `runs` says which software".into())),
        };
        check_glob(pattern)?;
        if pattern.trim_matches(['*', '?', '/']).is_empty() {
            return Err(ApiError::BadRequest(format!("`{pattern}` is all software")));
        }
        Ok(Software { of, pattern: pattern.clone() })
    }
}

/// Puts a tag on software, or takes it off: every job that used it, also in the past, has the tag or loses it. The answer is the run that does that.
#[utoipa::path(post, path = "/api/v1/tags/software", params(OnSoftware), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 503)))]
pub async fn tag_software(
    Admin(asker): Admin,
    State(app): State<Arc<App>>,
    query: Asked<OnSoftware>,
) -> Result<Json<Value>, ApiError> {
    let asked = asked(query)?;
    let (software, declared) = (asked.software()?, app.readers.tags(&asker.sight));
    check_reason(asked.reason.as_deref())?;
    let known = wished(&declared, &asked.tag).map_err(ApiError::BadRequest)?;
    if known.tag.declared.space != Space::General {
        let space = &known.tag.declared.space;
        return Err(ApiError::BadRequest(format!("software has general tags: this one is of {space}")));
    }
    let (tag, name) = (known.tag.declared.id, known.tag.declared.name.to_string());
    tracing::info!(tag = name, ?software, has = asked.has, by = asker.name, "tag on software");
    let (by, has) = (asker.name.clone(), asked.has);
    let (is_new, run) = write(&app, &asker, move |writer| {
        let is_new = writer.tag_software(tag, &software, has, &by, asked.reason.as_deref())?;
        let run = if is_new { Some(writer.begin_run(None, Some(tag))?) } else { None };
        Ok((is_new, run))
    })
    .await?;
    Ok(Json(json!({"tag": name, "has": has, "is_new": is_new, "run": run.as_ref().map(run_row)})))
}

/// Tags on software, also those that were taken off.
#[utoipa::path(get, path = "/api/v1/tags/software", security(("token" = [])),
    responses((status = 200, body = Rows), (status = 401), (status = 403)))]
pub async fn software_tags(asker: Asker, State(app): State<Arc<App>>) -> Result<Json<Rows>, ApiError> {
    Ok(Rows::new(ask(&app, &asker.sight, |reader| reader.software_tags()).await?, u64::MAX))
}
