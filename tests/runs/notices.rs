//! System events, and the runs that take them.

use clawgate::agent::{Family, RunEnd};
use clawgate::store::Teller;

use super::{Place, key, place};

/// What waits for a next run, in the database.
async fn kept(place: &Place) -> Vec<String> {
    place.store.notices().await.unwrap().into_iter().map(|row| row.text).collect()
}

#[tokio::test]
async fn an_event_waits_until_a_model_has_heard_it() {
    let place = place().await;
    let parts = place.runs.parts();
    parts.notice(&key(0), "the job is done", Teller::Owner).await.unwrap();
    assert!(place.send(0, "one", "one @mock err status=400", Family::Chat).await);
    assert!(matches!(place.end_of("one").await, RunEnd::Failed(_)));
    assert_eq!(parts.notices.of_all(), ["the job is done"]);
    assert_eq!(kept(&place).await, ["the job is done"]);

    assert!(place.send(0, "two", "two @mock text", Family::Chat).await);
    assert_eq!(place.end_of("two").await, RunEnd::Answered);
    assert!(parts.notices.of_all().is_empty());
    place.idle().await;
    assert!(kept(&place).await.is_empty());
}

#[tokio::test]
async fn an_event_that_is_written_down_waits_also_when_who_added_it_has_gone_away() {
    let place = place().await;
    let (parts, key) = (place.runs.parts(), key(0));
    let mut adding = Box::pin(parts.notice(&key, "the job is done", Teller::Owner));
    assert!(futures_util::poll!(&mut adding).is_pending());
    drop(adding);
    place.idle().await;
    assert_eq!(kept(&place).await, ["the job is done"]);
    assert_eq!(parts.notices.of_all(), ["the job is done"]);
}

#[tokio::test]
async fn an_event_that_somebody_else_has_taken_is_not_forgotten_with_a_later_one() {
    let place = place().await;
    let parts = place.runs.parts();
    parts.notice(&key(0), "the job is done", Teller::Owner).await.unwrap();
    let earlier = parts.take_notices(&key(0));
    parts.notice(&key(0), "the tea is cold", Teller::Owner).await.unwrap();
    parts.take_notices(&key(0)).set_heard();
    place.idle().await;
    assert_eq!(kept(&place).await, ["the job is done"]);
    drop(earlier);
    assert_eq!(parts.notices.of_all(), ["the job is done"]);
}
