//! Searches that have a name: those that are shipped, those of the site, and those that people save for themselves.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::jobs::Tagged;
use store::tags::Declared;
use tags::Search;
use utoipa::ToSchema;

use crate::app::App;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::jobs::Jobs;
use crate::notes::parsed;
use crate::read::{Rows, check_text};
use crate::readers::ask;
use crate::tags::combined;
use crate::writing::write;

/// Longer names do not fit into a table.
const NAME_MAX: usize = 60;

/// Tags of a search by name, and its condition: one's own before others that are called the same.
pub fn searched(
    declared: &Declared,
    saved: &[Search],
    name: &str,
) -> Result<(Tagged, Option<String>), ApiError> {
    let mut all = saved.iter().chain(declared.searches.iter());
    let Some(search) = all.clone().find(|search| search.name == name) else {
        let known: Vec<&str> = all.by_ref().map(|search| &*search.name).collect();
        return Err(ApiError::BadRequest(format!("there is no search `{name}`, but {}", known.join(", "))));
    };
    let tagged = combined(declared, &search.all, &search.any, &search.none)?;
    Ok((tagged, search.r#where.clone()))
}

/// Searches that have a name: one's own, and everybody's.
#[utoipa::path(get, path = "/api/v1/searches", security(("token" = [])),
    responses((status = 200, body = Rows), (status = 401), (status = 403)))]
pub async fn list(asker: Asker, State(app): State<Arc<App>>) -> Result<Json<Rows>, ApiError> {
    let saved = ask(&app, &asker.sight, |reader| reader.saved_searches()).await?;
    let declared = app.readers.tags(&asker.sight);
    let own = saved.iter().map(|search| row(search, true));
    let others = declared.searches.iter().filter(|search| saved.iter().all(|own| own.name != search.name));
    Ok(Rows::new(own.chain(others.map(|search| row(search, false))).collect(), u64::MAX))
}

fn row(search: &Search, is_own: bool) -> Map<String, Value> {
    let row = json!({
        "search": search.name, "description": search.description, "is_own": is_own,
        "all": search.all, "any": search.any, "none": search.none, "where": search.r#where,
    });
    if let Value::Object(row) = row { row } else { Map::new() }
}

/// A search to be kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSearch {
    name: String,
    #[serde(default)]
    description: String,
    /// Each of these tags.
    #[serde(default)]
    all: Vec<String>,
    /// Of each list at least one.
    #[serde(default)]
    any: Vec<Vec<String>>,
    /// None of them.
    #[serde(default)]
    none: Vec<String>,
    /// A condition over the columns of jobs.
    r#where: Option<String>,
}

/// Saves a search for whoever asks, instead of the one of theirs that had its name.
#[utoipa::path(post, path = "/api/v1/searches", security(("token" = [])), request_body = NewSearch,
    responses((status = 200, body = Object), (status = 400), (status = 401), (status = 403), (status = 409), (status = 413), (status = 503)))]
pub async fn save(
    asker: Asker,
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, ApiError> {
    let NewSearch { name, description, all, any, none, r#where } = parsed(body)?;
    check_name(&name)?;
    check_text(&description)?;
    let declared = app.readers.tags(&asker.sight);
    combined(&declared, &all, &any, &none)?;
    if all.is_empty() && any.is_empty() && none.is_empty() && r#where.is_none() {
        return Err(ApiError::BadRequest("this finds all jobs: a search has tags or a condition".into()));
    }
    let columns = ask(&app, &asker.sight, |reader| reader.job_columns()).await?;
    Jobs::of(r#where.clone(), None, None).which(&columns, &declared)?;
    let (search, by) =
        (Search { name: name.clone(), description, all, any, none, r#where }, asker.name.clone());
    let was_there = write(&app, &asker, move |writer| writer.save_search(&search, &by)).await?;
    Ok(Json(json!({"search": name, "is_new": !was_there})))
}

/// `help` lists searches.
fn check_name(name: &str) -> Result<(), ApiError> {
    let is_part = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name == "help" || name.len() > NAME_MAX || !name.chars().all(is_part) {
        return Err(ApiError::BadRequest(format!(
            "`{name}` is no name for a search: letters, digits and - _ . only, at most {NAME_MAX} bytes"
        )));
    }
    Ok(())
}

/// Forgets a search of whoever asks.
#[utoipa::path(delete, path = "/api/v1/searches/{name}", params(("name" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Object), (status = 401), (status = 403), (status = 404), (status = 503)))]
pub async fn forget(
    asker: Asker,
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(name) = name.map_err(|error| ApiError::BadRequest(error.body_text()))?;
    let (own, by) = (name.clone(), asker.name.clone());
    match write(&app, &asker, move |writer| writer.forget_search(&own, &by)).await? {
        true => Ok(Json(json!({"forgotten": name}))),
        false => Err(ApiError::NotFound(format!("you have no search `{name}`"))),
    }
}
