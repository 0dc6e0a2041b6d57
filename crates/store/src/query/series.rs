//! One metric of a job over time: of the job itself, of its nodes, or of its GPUs.

use std::collections::BTreeMap;

use digest::series::{Span, within};
use digest::{Job, Stretch};
use duckdb::types::Value as Sql;
use record::metric::{self, Metric, Of};
use serde_json::{Map, Value, json};

use super::hosts::readings;
use super::resources::shown;
use super::{Conditions, Filter, Rows, Snapshot, object, time};
use crate::StoreError;

/// The times and values of one card. Its key is host, node and name.
type OfCards = BTreeMap<(String, Option<String>, String), (Vec<i64>, Vec<Option<i64>>)>;

/// Whose a value is.
struct Whose<'a> {
    host: &'a str,
    node: Option<&'a str>,
    card: Option<&'a str>,
}

impl Snapshot<'_> {
    /// The readings of a metric: value of a gauge, or rate of a counter since the reading before.
    pub(super) fn series(
        &self,
        filter: &Filter,
        metric: &'static Metric,
        now_ns: i64,
    ) -> Result<Rows, StoreError> {
        match metric.of {
            Of::Job => self.series_of_job(filter, metric),
            Of::Node => self.series_of_nodes(filter, metric, now_ns),
            Of::Card => self.series_of_cards(filter, metric),
        }
    }

    fn series_of_job(&self, filter: &Filter, metric: &'static Metric) -> Result<Rows, StoreError> {
        let nodes = self.on_nodes(filter, &[metric])?;
        let rows = nodes.iter().flat_map(|on| {
            let whose = Whose { host: &on.host, node: on.node.as_deref(), card: None };
            on.stretches(metric, 0).iter().map(|stretch| row(&whose, stretch, metric)).collect::<Vec<_>>()
        });
        Ok(rows.collect())
    }

    fn series_of_nodes(
        &self,
        filter: &Filter,
        metric: &'static Metric,
        now_ns: i64,
    ) -> Result<Rows, StoreError> {
        let nodes = self.on_nodes(filter, &[])?;
        let Some(Job { start, until, .. }) = Job::of(&nodes, &[], self.site, now_ns) else {
            return Ok(Rows::new());
        };
        let Some(at) = metric::of(Of::Node).position(|known| known.id == metric.id) else {
            return Ok(Rows::new());
        };
        let hosts = self.hosts(&[&nodes])?;
        let rows = hosts.iter().flatten().flat_map(|(host, of)| {
            let whose = Whose { host, node: None, card: None };
            let spans = within(metric, &of.readings, &of.values[at], start, until);
            spans.into_iter().map(|span| row(&whose, &alone(span), metric)).collect::<Vec<_>>()
        });
        Ok(rows.collect())
    }

    fn series_of_cards(&self, filter: &Filter, metric: &'static Metric) -> Result<Rows, StoreError> {
        let Some(job) = &filter.job else { return Ok(Rows::new()) };
        let mut cards = OfCards::new();
        for table in ["card_coarse", "card_sample"] {
            self.cards_in(table, job, filter, metric, &mut cards)?;
        }
        let rows = cards.iter().flat_map(|((host, node, card), (times, values))| {
            let whose = Whose { host, node: node.as_deref(), card: Some(card) };
            let spans = within(metric, &readings(times), values, i64::MIN, i64::MAX);
            spans.into_iter().map(|span| row(&whose, &alone(span), metric)).collect::<Vec<_>>()
        });
        Ok(rows.collect())
    }

    fn cards_in(
        &self,
        table: &str,
        job: &str,
        filter: &Filter,
        metric: &Metric,
        cards: &mut OfCards,
    ) -> Result<(), StoreError> {
        let (column, first, last) = self.find_job(table, job)?;
        let mut conditions = Conditions::default();
        let values = [Sql::BigInt(first), Sql::BigInt(last), Sql::Text(job.to_owned())];
        conditions.add(&format!("rowid BETWEEN ? AND ? AND {column} = ?"), values);
        if let Some(cluster) = &filter.cluster {
            conditions.add("cluster = ?", [Sql::Text(cluster.clone())]);
        }
        if let Some(host) = &filter.host {
            conditions.add("(host = ? OR node = ?)", [Sql::Text(host.clone()), Sql::Text(host.clone())]);
        }
        let sql = format!(
            "SELECT host, node, card, time_ns, CAST({} AS BIGINT) FROM {table} {} ORDER BY time_ns",
            metric.name,
            conditions.sql()
        );
        self.rows(&sql, &conditions.values, |row| {
            let (times, values) = cards.entry((row.get(0)?, row.get(1)?, row.get(2)?)).or_default();
            times.push(row.get(3)?);
            values.push(row.get(4)?);
            Ok(())
        })?;
        Ok(())
    }
}

/// A span of which nothing is known but the value.
fn alone(span: Span) -> Stretch {
    Stretch { span, least: None, most: None }
}

fn row(whose: &Whose, stretch: &Stretch, metric: &Metric) -> Map<String, Value> {
    let Stretch { span, least, most } = stretch;
    let (unit, over) = shown(metric);
    object([
        ("host", json!(whose.host)),
        ("node", json!(whose.node)),
        ("card", json!(whose.card)),
        ("from", time(Some(span.from))),
        ("to", time(Some(span.from.saturating_add(span.length)))),
        ("value", json!(span.value / over)),
        ("min", json!(least.map(|least| least / over))),
        ("max", json!(most.map(|most| most / over))),
        ("unit", json!(unit)),
    ])
}
