//! The part of the store that channels use.

use super::{
    ChannelPerson, ExpectedReply, NewPart, OutboxAddress, OutboxCounts, OutboxNext, OutboxPart,
    OutboxSettled, PairingClaim, PairingRequest, keep_note, note, outbox, people, replies,
};
use crate::store::{SqliteStore, StoreFuture};

/// What is to be sent, what is expected, who was let in.
pub trait ChannelStore: Send + Sync {
    /// Adds parts that are to be sent, but for those that are there already;
    /// answers the numbers of all, in order.
    fn add_outbox(&self, parts: Vec<NewPart>, now_ms: u64) -> StoreFuture<'_, Vec<i64>>;

    /// Takes the next part of an address that is due, and notes that it is being
    /// sent.
    fn next_outbox(&self, address: OutboxAddress, now_ms: u64) -> StoreFuture<'_, OutboxNext>;

    /// Notes what became of a part that was being sent.
    fn settle_outbox(&self, id: i64, settled: OutboxSettled, now_ms: u64) -> StoreFuture<'_, ()>;

    /// For the start: what was being sent is uncertain now. Answers how many
    /// parts that are.
    fn doubt_outbox(&self, now_ms: u64) -> StoreFuture<'_, usize>;

    /// The addresses for which something waits.
    fn waiting_outbox(&self) -> StoreFuture<'_, Vec<OutboxAddress>>;

    /// The parts of a delivery, in order.
    fn outbox_of(&self, delivery: String) -> StoreFuture<'_, Vec<OutboxPart>>;

    /// How many parts of an account are how far.
    fn outbox_counts<'a>(
        &'a self,
        channel: &'a str,
        account: &'a str,
    ) -> StoreFuture<'a, OutboxCounts>;

    /// A run's reply is to go to a channel; `false` when that is known already.
    fn expect_reply(&self, reply: ExpectedReply) -> StoreFuture<'_, bool>;

    /// The replies that are expected, the oldest first.
    fn expected_replies(&self) -> StoreFuture<'_, Vec<ExpectedReply>>;

    /// The reply that is expected of a run.
    fn expected_reply<'a>(&'a self, run_id: &'a str) -> StoreFuture<'a, Option<ExpectedReply>>;

    /// Notes which message shows a reply while it is written.
    fn set_preview(&self, run_id: String, preview: String) -> StoreFuture<'_, ()>;

    /// Puts an expected reply into the outbox, in one commit with its being
    /// expected no more; answers whether it was. That of a run which was accepted at a time is
    /// none of a later one with its key.
    fn settle_reply(
        &self,
        run_id: String,
        accepted_at: Option<u64>,
        parts: Vec<NewPart>,
        now_ms: u64,
    ) -> StoreFuture<'_, bool>;

    /// Somebody unknown asks to be let in.
    fn claim_pairing(&self, request: PairingRequest) -> StoreFuture<'_, PairingClaim>;

    /// Those who ask, the oldest first.
    fn pairings(&self, now_ms: u64) -> StoreFuture<'_, Vec<PairingRequest>>;

    /// Lets the one with this code in, or not; `None` when the code is none.
    fn resolve_pairing(
        &self,
        channel: String,
        code: String,
        approved: bool,
        now_ms: u64,
    ) -> StoreFuture<'_, Option<PairingRequest>>;

    /// Lets people in who were let in elsewhere; answers how many are new.
    fn import_people(&self, people: Vec<ChannelPerson>) -> StoreFuture<'_, u64>;

    /// Whether somebody was let in.
    fn is_paired(&self, channel: String, account: String, person: String) -> StoreFuture<'_, bool>;

    /// Everybody who was let in, the oldest first.
    fn paired_people(&self) -> StoreFuture<'_, Vec<ChannelPerson>>;

    /// Somebody is not let in any more; whether that was so.
    fn unpair(&self, channel: String, account: String, person: String) -> StoreFuture<'_, bool>;

    /// What a channel has kept under a name.
    fn channel_note<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Keeps something for a channel under a name.
    fn keep_channel_note(&self, name: String, value: String) -> StoreFuture<'_, ()>;
}

impl ChannelStore for SqliteStore {
    fn add_outbox(&self, parts: Vec<NewPart>, now_ms: u64) -> StoreFuture<'_, Vec<i64>> {
        let add = move |c: &_| outbox::add(c, &parts, now_ms);
        Box::pin(self.database().write("add to the outbox", add))
    }

    fn next_outbox(&self, address: OutboxAddress, now_ms: u64) -> StoreFuture<'_, OutboxNext> {
        let next = move |c: &_| outbox::next(c, &address, now_ms);
        Box::pin(self.database().write("take from the outbox", next))
    }

    fn settle_outbox(&self, id: i64, settled: OutboxSettled, now_ms: u64) -> StoreFuture<'_, ()> {
        let settle = move |c: &_| outbox::settle(c, id, &settled, now_ms);
        Box::pin(self.database().write("settle a part", settle))
    }

    fn doubt_outbox(&self, now_ms: u64) -> StoreFuture<'_, usize> {
        Box::pin(self.database().write("open the outbox", move |c| outbox::doubt(c, now_ms)))
    }

    fn waiting_outbox(&self) -> StoreFuture<'_, Vec<OutboxAddress>> {
        Box::pin(self.database().read("look into the outbox", outbox::waiting))
    }

    fn outbox_of(&self, delivery: String) -> StoreFuture<'_, Vec<OutboxPart>> {
        let find = move |c: &_| outbox::of_delivery(c, &delivery);
        Box::pin(self.database().read("look into the outbox", find))
    }

    fn outbox_counts<'a>(
        &'a self,
        channel: &'a str,
        account: &'a str,
    ) -> StoreFuture<'a, OutboxCounts> {
        let (channel, account) = (channel.to_owned(), account.to_owned());
        let count = move |c: &_| outbox::counts(c, &channel, &account);
        Box::pin(self.database().read("count the outbox", count))
    }

    fn expect_reply(&self, reply: ExpectedReply) -> StoreFuture<'_, bool> {
        Box::pin(self.database().write("expect a reply", move |c| replies::expect(c, &reply)))
    }

    fn expected_replies(&self) -> StoreFuture<'_, Vec<ExpectedReply>> {
        Box::pin(self.database().read("list expected replies", replies::all))
    }

    fn expected_reply<'a>(&'a self, run_id: &'a str) -> StoreFuture<'a, Option<ExpectedReply>> {
        let run_id = run_id.to_owned();
        let find = move |c: &_| replies::of_run(c, &run_id);
        Box::pin(self.database().read("look up an expected reply", find))
    }

    fn set_preview(&self, run_id: String, preview: String) -> StoreFuture<'_, ()> {
        let set = move |c: &_| replies::set_preview(c, &run_id, &preview);
        Box::pin(self.database().write("note a preview", set))
    }

    fn settle_reply(
        &self,
        run_id: String,
        accepted_at: Option<u64>,
        parts: Vec<NewPart>,
        now_ms: u64,
    ) -> StoreFuture<'_, bool> {
        let settle = move |c: &_| replies::settle(c, (&run_id, accepted_at), &parts, now_ms);
        Box::pin(self.database().write("settle a reply", settle))
    }

    fn claim_pairing(&self, request: PairingRequest) -> StoreFuture<'_, PairingClaim> {
        Box::pin(self.database().write("claim a code", move |c| people::claim(c, &request)))
    }

    fn pairings(&self, now_ms: u64) -> StoreFuture<'_, Vec<PairingRequest>> {
        Box::pin(self.database().read("list codes", move |c| people::requests(c, now_ms)))
    }

    fn resolve_pairing(
        &self,
        channel: String,
        code: String,
        approved: bool,
        now_ms: u64,
    ) -> StoreFuture<'_, Option<PairingRequest>> {
        let resolve = move |c: &_| people::resolve(c, (&channel, &code), approved, now_ms);
        Box::pin(self.database().write("resolve a code", resolve))
    }

    fn import_people(&self, people: Vec<ChannelPerson>) -> StoreFuture<'_, u64> {
        Box::pin(self.database().write("import people", move |c| people::import(c, &people)))
    }

    fn is_paired(&self, channel: String, account: String, person: String) -> StoreFuture<'_, bool> {
        let find = move |c: &_| people::is_known(c, (&channel, &account, &person));
        Box::pin(self.database().read("look up a person", find))
    }

    fn paired_people(&self) -> StoreFuture<'_, Vec<ChannelPerson>> {
        Box::pin(self.database().read("list people", people::known))
    }

    fn unpair(&self, channel: String, account: String, person: String) -> StoreFuture<'_, bool> {
        let remove = move |c: &_| people::remove(c, (&channel, &account, &person));
        Box::pin(self.database().write("remove a person", remove))
    }

    fn channel_note<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<String>> {
        let name = name.to_owned();
        Box::pin(self.database().read("look up a note", move |c| note(c, &name)))
    }

    fn keep_channel_note(&self, name: String, value: String) -> StoreFuture<'_, ()> {
        let keep = move |c: &_| keep_note(c, &name, &value);
        Box::pin(self.database().write("keep a note", keep))
    }
}
