//! What people think of what rules say of jobs: `POST /api/v1/jobs/{id}/opinions`, by all who see the job.
#![expect(unused_qualifications, reason = "in what utoipa's macros make")]

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use store::query::tags::Opinions;
use store::tags::{Opinion, Word};
use store::{After, Filter};
use utoipa::IntoParams;

use crate::app::App;
use crate::asker::Asker;
use crate::assign::{check_reason, owned};
use crate::error::ApiError;
use crate::read::{Asked, Part, Rows, asked, check_text, limited, place};
use crate::readers::ask;
use crate::tags::known;
use crate::writing::write;

/// What somebody thinks of a tag.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Thought {
    cluster: Option<String>,
    /// A tag that the job has by its rule.
    tag: String,
    /// agree, disagree, or hide: not to be shown it there any more.
    word: String,
    /// Why.
    #[param(max_length = 1000)]
    reason: Option<String>,
    /// Takes back what was said before.
    #[serde(default)]
    undo: bool,
}

/// Agrees with what a rule says of a job, disagrees, or hides it for oneself. The tag stays.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/opinions", params(("id" = String, Path), Thought), security(("token" = [])),
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 404), (status = 409), (status = 503)))]
pub async fn opine(
    asker: Asker,
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    query: Asked<Thought>,
) -> Result<Json<Value>, ApiError> {
    let Path(job) = id.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let Thought { cluster, tag, word, reason, undo } = asked(query)?;
    [Some(&job), cluster.as_ref()].into_iter().flatten().try_for_each(|text| check_text(text))?;
    check_reason(reason.as_deref())?;
    let word = named(&word)?;
    let declared = app.readers.tags(&asker.sight);
    let known = known(&declared, &tag)?.clone();
    let (tag, name) = (known.tag.declared.id, known.tag.declared.name.to_string());
    let owned = owned(&app, &asker, &job, cluster.clone()).await?;
    let (id, by) = (owned.id, asker.name.clone());
    if undo {
        let was = write(&app, &asker, move |writer| writer.take_back_opinion(id, tag, word, &by)).await?;
        return Ok(Json(json!({"job": job, "tag": name, "word": word.name(), "taken_back": was})));
    }
    let filter = Filter { cluster, job: Some(job.clone()), ..Filter::default() };
    let version = ask(&app, &asker.sight, move |reader| reader.decided_by(&filter, &known)).await?;
    let version = version.ok_or_else(|| {
        ApiError::BadRequest(format!("no rule has set `{name}` on job {job}: see jobglass tags explain"))
    })?;
    let opinion = Opinion { id, tag, version, word, by, reason };
    write(&app, &asker, move |writer| writer.opine(&opinion)).await?;
    Ok(Json(json!({"job": job, "tag": name, "word": word.name(), "version": version})))
}

/// Which opinions are asked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// About this tag.
    tag: Option<String>,
    /// agree, disagree or hide.
    word: Option<String>,
    /// Of this person.
    by: Option<String>,
    /// At most so many rows; 1000 unless given.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<u64>,
    /// Behind this place: the `next` of the answer before.
    after: Option<String>,
}

/// What people think of tags on jobs that whoever asks sees, the newest first.
#[utoipa::path(get, path = "/api/v1/opinions", params(Which), security(("token" = [])),
    responses((status = 200, body = Rows), (status = 400), (status = 401), (status = 403)))]
pub async fn opinions(
    asker: Asker,
    State(app): State<Arc<App>>,
    query: Asked<Which>,
) -> Result<Part, ApiError> {
    let Which { tag, word, by, limit, after } = asked(query)?;
    by.as_deref().map_or(Ok(()), check_text)?;
    let declared = app.readers.tags(&asker.sight);
    let tag = tag.map(|name| known(&declared, &name).map(|known| known.tag.declared.id)).transpose()?;
    let word = word.map(|word| named(&word).map(Word::name)).transpose()?;
    let (limit, after) = (limited(limit)?, after.map(|text| place(&text, 1)).transpose()?);
    let before = after.as_ref().map_or(0, After::position);
    let which = Opinions { tag, word, by, limit: Some(limit + 1), after: before };
    let rows = ask(&app, &asker.sight, move |reader| reader.opinions(&which)).await?;
    Ok(Part::of(rows, after.as_ref(), limit))
}

fn named(word: &str) -> Result<Word, ApiError> {
    let known = || Word::ALL.map(Word::name).join(", ");
    Word::named(word)
        .ok_or_else(|| ApiError::BadRequest(format!("`{word}` is no opinion: there are {}", known())))
}
