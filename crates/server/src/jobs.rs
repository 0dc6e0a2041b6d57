//! The list of jobs: `GET /api/v1/jobs`, filtered, sorted, counted or put together, and what its columns mean.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use condition::Condition;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json as value};
use store::jobs::{
    Columns, FIXED, GroupSort, JobAfter, JobColumn, JobsBy, Page, Tagged, USUAL, USUAL_ORDER, Which,
};
use store::tags::Declared;
use store::{After, Kinds};
use utoipa::IntoParams;

use crate::app::App;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::read::{
    Asked, Part, asked, check_known, check_long_text, check_text, json, named_nodes, nanos, place,
};
use crate::readers::ask;
use crate::searches::searched;
use crate::tags::{self, Typed};

/// Rows in one answer unless the question says otherwise.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 1_000_000_000;
/// Columns of one answer, more than there are.
const COLUMNS_MAX: usize = 1000;
/// Jobs in one answer of those that are taken elsewhere: one may have many values.
const EXPORTED: u64 = 100;

/// Which jobs are asked for, and what is to be said of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Jobs {
    /// A condition on the columns of `/api/v1/jobs/columns`: `gpu_util_avg < 5 and gpus > 0`.
    r#where: Option<String>,
    /// Another one that must hold as well: what was chosen besides, so that an error in one points at its own place.
    also: Option<String>,
    /// Of this kind: `job`, `session` (of somebody who logged in, outside any batch job) or `all`. Unless given, `job` where a batch
    /// system has told of any; `all` where none has, where jobs are grouped by kind, and where a condition names the column `kind`.
    kind: Option<String>,
    /// With all of these tags, with commas between them.
    all: Option<String>,
    /// With one of these tags, with commas between them; of several lists, with `;` between them, one of each.
    any: Option<String>,
    /// With none of these tags.
    none: Option<String>,
    /// On which this user has set a tag, or somebody of a project: `project:NAME`.
    tagged_by: Option<String>,
    /// On which some tag was set by a rule (`auto`) or by people (`manual`).
    tagged: Option<String>,
    /// As a search says that has this name, see `/api/v1/searches`.
    search: Option<String>,
    /// On these nodes: a name, a list `n[01-04]`, or a pattern `gpu*`.
    node: Option<String>,
    /// Whatever waited or ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever waited or ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Columns, by name, with commas between them.
    columns: Option<String>,
    /// A column, of groups one of theirs; `-` before it is from the most to the least. Unless given, jobs are sorted by `-submit` (by
    /// their start where that is not known), groups of time by time, others by `-core_hours`.
    sort: Option<String>,
    /// At most so many rows, 0 for all; 100 unless given. An answer has as many of them as one part of the list.
    #[param(maximum = 1_000_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
    /// One row for those that have this in common: cluster, kind, user, project, partition, state, name, node, program, tag, month, week, day,
    /// hour (of the day), weekday. With times, and in groups of time, a job counts for the time that it ran then: `started` and waits
    /// are of jobs that began then, hours are in proportion.
    group_by: Option<String>,
    /// Only how many there are.
    #[serde(default)]
    count: bool,
    /// Those who `tagged_by` means.
    #[serde(skip)]
    people: Option<Vec<String>>,
    /// Searches of whoever asks.
    #[serde(skip)]
    saved: Vec<::tags::Search>,
}

/// Jobs of the whole collection: `rows` with the `units` of their columns and whether there are `more`, or their `count`, or groups
/// and how many `groups` there are.
#[utoipa::path(get, path = "/api/v1/jobs", params(Jobs), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403)))]
pub async fn jobs(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Jobs>,
) -> Result<Response, ApiError> {
    let mut asked = asked(query)?;
    asked.tagged_by.as_deref().map_or(Ok(()), check_text)?;
    asked.people = asked.tagged_by.as_deref().map(|text| tags::people(&app, text));
    if asked.search.is_some() {
        asked.saved = ask(&app, &asker.sight, |reader| reader.saved_searches()).await?;
    }
    let declared = app.readers.tags(&asker.sight);
    let Question { which, page } = match asked.question(&FIXED, &declared) {
        Ok(question) => question,
        // It may be about something that only another system measures.
        Err(_) => {
            asked.question(&ask(&app, &asker.sight, |reader| reader.job_columns()).await?, &declared)?
        }
    };
    let nodes = which.node.clone().filter(|_| asked.after.is_none());
    if asked.count {
        let count = ask(&app, &asker.sight, move |reader| reader.count_jobs(&which)).await?;
        if count == 0 {
            check_known(&app, &asker, nodes).await?;
        }
        return Ok(Json(value!({"count": count})).into_response());
    }
    if let Some(by) = asked.group_by()? {
        let after = asked.after.as_deref().map(|text| place(text, 1)).transpose()?;
        let before = after.as_ref().map_or(0, After::position) as usize;
        let sort = asked.group_sort(by)?;
        let rows = ask(&app, &asker.sight, move |reader| reader.group_jobs(&which, by, sort)).await?;
        if rows.is_empty() {
            check_known(&app, &asker, nodes).await?;
        }
        let groups = Value::from(rows.len());
        let rows = rows.into_iter().skip(before).collect();
        let Part(listed) = Part::of(rows, after.as_ref(), asked.limit().unwrap_or(u64::MAX));
        return Ok(json(listed.into_json(&[("groups", groups)])));
    }
    let units = units(&page);
    let found = ask(&app, &asker.sight, move |reader| reader.jobs(&which, &page)).await?;
    if found.is_empty() {
        check_known(&app, &asker, nodes).await?;
    }
    Ok(json(found.into_json(&[("units", units)])))
}

/// What the values of each column count, for those who show them to people.
fn units(page: &Page) -> Value {
    page.columns.iter().map(|column| (column.name.clone(), Value::from(column.unit()))).collect()
}

/// Which jobs, and what of them.
struct Question {
    which: Which,
    page: Page,
}

impl Jobs {
    /// All jobs of a time for which a condition holds.
    pub fn of(condition: Option<String>, since: Option<Timestamp>, until: Option<Timestamp>) -> Jobs {
        Jobs { r#where: condition, since, until, ..Jobs::default() }
    }

    fn question(&self, columns: &Columns, declared: &Declared) -> Result<Question, ApiError> {
        if self.limit.is_some_and(|limit| limit > LIMIT_MAX) {
            return Err(ApiError::BadRequest(format!("limit is more than {LIMIT_MAX}; 0 is all")));
        }
        Ok(Question { which: self.which(columns, declared)?, page: self.page(columns)? })
    }

    fn limit(&self) -> Option<u64> {
        match self.limit.unwrap_or(LIMIT) {
            0 => None,
            limit => Some(limit),
        }
    }

    pub(crate) fn which(&self, columns: &Columns, declared: &Declared) -> Result<Which, ApiError> {
        let condition = |text: &String| {
            check_long_text(text)?;
            Condition::asked(text, &columns.catalogue)
                .map_err(|error| ApiError::BadRequest(error.to_string()))
        };
        let typed = Typed { all: self.all.clone(), any: self.any.clone(), none: self.none.clone() };
        let mut tagged = typed.tagged(declared)?;
        tagged.origin = self.tagged.as_deref().map(tags::origin).transpose()?;
        tagged.by = self.people.clone();
        let search = self.search.as_deref().map(|name| searched(declared, &self.saved, name)).transpose()?;
        let (own, also) = search.map_or((Tagged::default(), None), |(tagged, also)| (tagged, also));
        tagged.all.extend(own.all);
        tagged.any.extend(own.any);
        tagged.none.extend(own.none);
        Ok(Which {
            tagged,
            conditions: [&self.r#where, &self.also, &also]
                .into_iter()
                .flatten()
                .map(condition)
                .collect::<Result<_, _>>()?,
            node: self.node.as_deref().map(named_nodes).transpose()?,
            since_ns: self.since.map(nanos),
            until_ns: self.until.map(nanos),
            kinds: self.kinds()?,
        })
    }

    fn kinds(&self) -> Result<Kinds, ApiError> {
        let Some(name) = &self.kind else { return Ok(Kinds::Usual) };
        Kinds::named(name).ok_or_else(|| {
            let nearest = condition::nearest(name, Kinds::NAMES.into_iter());
            let meant = nearest.map_or(String::new(), |nearest| format!("; is it `{nearest}`?"));
            let known = Kinds::NAMES.join(", ");
            ApiError::BadRequest(format!("there is no kind `{name}` of jobs, but {known}{meant}"))
        })
    }

    fn page(&self, columns: &Columns) -> Result<Page, ApiError> {
        let named = |name: &str| {
            columns.named(name).cloned().ok_or_else(|| {
                let meant =
                    columns.nearest(name).map_or(String::new(), |nearest| format!("; is it `{nearest}`?"));
                let see = "jobglass jobs --fmt help lists them";
                ApiError::BadRequest(format!("jobs have no column `{name}`{meant} ({see})"))
            })
        };
        // Groups have columns of their own.
        let sort = self.sort.as_deref().filter(|_| self.group_by.is_none());
        let by = match sort {
            Some(sort) => named(sort.trim_start_matches('-'))?,
            None => USUAL_ORDER.clone(),
        };
        if by.is_only_shown {
            return Err(ApiError::BadRequest(format!("jobs cannot be sorted by `{}`", by.name)));
        }
        Ok(Page {
            columns: match &self.columns {
                Some(names) if names.split(',').count() > COLUMNS_MAX => {
                    return Err(ApiError::BadRequest(format!("at most {COLUMNS_MAX} columns are shown")));
                }
                Some(names) => names.split(',').map(|name| named(name.trim())).collect::<Result<_, _>>()?,
                None => USUAL.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
            },
            sort: by,
            is_ascending: sort.is_some_and(|sort| !sort.starts_with('-')),
            limit: self.limit(),
            after: self.after.as_deref().filter(|_| self.group_by.is_none()).map(job_place).transpose()?,
        })
    }

    fn group_by(&self) -> Result<Option<JobsBy>, ApiError> {
        let Some(name) = &self.group_by else { return Ok(None) };
        let known = JobsBy::ALL.map(JobsBy::name);
        let by = JobsBy::ALL.into_iter().find(|by| by.name() == name);
        by.map(Some).ok_or_else(|| {
            ApiError::BadRequest(format!("jobs cannot be grouped by `{name}`, but by {}", known.join(", ")))
        })
    }

    /// By which of their columns groups are sorted.
    fn group_sort(&self, by: JobsBy) -> Result<Option<GroupSort>, ApiError> {
        let Some(sort) = &self.sort else { return Ok(None) };
        GroupSort::named(sort, by).map(Some).ok_or_else(|| {
            let names: Vec<&str> = GroupSort::names(by).collect();
            let name = sort.trim_start_matches('-');
            ApiError::BadRequest(format!("groups have no column `{name}`; they have {}", names.join(", ")))
        })
    }
}

/// Which jobs are taken elsewhere.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Export {
    /// A condition on the columns of `/api/v1/jobs/columns`.
    r#where: Option<String>,
    /// Whatever waited or ran at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Whatever waited or ran before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// The id of the last job of the answer before.
    #[param(value_type = Option<String>)]
    after: Option<String>,
}

/// Jobs as they were told, with what other systems measured of them: a CBOR array, empty behind the last.
#[utoipa::path(get, path = "/api/v1/export", params(Export), security(("token" = [])),
    responses((status = 200, body = Vec<u8>, content_type = "application/cbor"), (status = 400), (status = 401), (status = 403)))]
pub async fn export(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Export>,
) -> Result<impl IntoResponse, ApiError> {
    let Export { r#where, since, until, after } = asked(query)?;
    let after = after.map(|id| parse_id(&id)).transpose()?;
    let jobs = Jobs::of(r#where, since, until);
    let declared = app.readers.tags(&asker.sight);
    let which = match jobs.which(&FIXED, &declared) {
        Ok(which) => which,
        Err(_) => jobs.which(&ask(&app, &asker.sight, |reader| reader.job_columns()).await?, &declared)?,
    };
    let found = ask(&app, &asker.sight, move |reader| reader.export(&which, after, EXPORTED)).await?;
    let body = minicbor::to_vec(&found).map_err(|_| ApiError::Internal("the jobs cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, "application/cbor")], body))
}

fn job_place(text: &str) -> Result<JobAfter, ApiError> {
    text.parse().map_err(|()| {
        ApiError::BadRequest(format!("`{text}` is no place in this list: `after` is the `next` of an answer"))
    })
}

/// Ids are larger than the numbers of JSON.
fn parse_id(text: &str) -> Result<u64, ApiError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| text.parse().ok()).flatten();
    id.ok_or_else(|| ApiError::BadRequest(format!("`{text}` is no id of a job")))
}

/// The columns that jobs have, with their units and meanings.
#[utoipa::path(get, path = "/api/v1/jobs/columns", security(("token" = [])),
    responses((status = 200, body = Object), (status = 401), (status = 403)))]
pub async fn columns(asker: Asker, State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let columns = ask(&app, &asker.sight, |reader| reader.job_columns()).await?;
    let row = |column: &Arc<JobColumn>| {
        let condition = column.alias.unwrap_or(&column.name);
        let usual = USUAL.contains(&&*column.name);
        value!({"column": column.name, "in_conditions": condition, "unit": column.unit(), "usual": usual, "meaning": column.meaning})
    };
    Ok(Json(value!({"rows": columns.all.iter().map(row).collect::<Vec<_>>(), "more": false})))
}
