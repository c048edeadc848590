//! Uploads in parts.

use super::client::Client;
use super::runtime::{Requests, start};
use crate::error::Problem;
use crate::path::StoragePath;
use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// Parts that are sent at a time.
const PARTS_IN_FLIGHT: usize = 4;

/// Stores accept 10,000 parts. The later parts are larger, so that an object can have 1.3 TB.
const SMALL_PARTS: usize = 5000;
const GROWTH: usize = 16;

/// A part on its way.
type SentPart = (Receiver<object_store::Result<()>>, Requests);

/// An upload: one request if the object fits into a part, else several.
pub(crate) struct Upload {
    client: Arc<Client>,
    key: Key,
    buffer: Vec<u8>,
    parts: Option<Box<dyn MultipartUpload>>,
    sent: usize,
    in_flight: VecDeque<SentPart>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({}, {} parts sent)", self.key, self.sent)
    }
}

impl Upload {
    pub(crate) fn new(client: Arc<Client>, key: &str) -> Result<Upload, Problem> {
        let key = StoragePath::checked_key(key)?;
        let (buffer, in_flight) = (Vec::new(), VecDeque::new());
        Ok(Upload { client, key, buffer, parts: None, sent: 0, in_flight })
    }

    fn part_size(&self) -> usize {
        self.client.part_size() * if self.sent < SMALL_PARTS { 1 } else { GROWTH }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            let room = self.part_size() - self.buffer.len();
            if room == 0 {
                self.send_part()?;
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Sends the buffer as a part, after waiting until fewer than four are on their way.
    fn send_part(&mut self) -> Result<(), Problem> {
        if self.parts.is_none() {
            let (store, key) = (self.client.store().clone(), self.key.clone());
            self.parts = Some(self.client.run(async move { store.put_multipart(&key).await })?);
        }
        while self.in_flight.len() >= PARTS_IN_FLIGHT {
            self.wait_for_part()?;
        }
        if let Some(parts) = &mut self.parts {
            let part = parts.put_part(PutPayload::from(std::mem::take(&mut self.buffer)));
            let (requests, (outcome, received)) = (Requests::default(), sync_channel(1));
            // The receiver is gone if the upload was given up.
            start(requests.clone(), part, move |result| drop(outcome.send(result)))?;
            self.in_flight.push_back((received, requests));
            self.sent += 1;
        }
        Ok(())
    }

    /// Waits for the oldest part on its way, if there is one.
    fn wait_for_part(&mut self) -> Result<(), Problem> {
        let Some((received, requests)) = self.in_flight.pop_front() else { return Ok(()) };
        match received.recv() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let problem = self.client.problem(&error, &requests);
                Err(self.client.missing_bucket(problem))
            }
            Err(_) => Err(Problem::new(io::ErrorKind::Other, "the client panicked")),
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        if self.parts.is_none() {
            let payload = PutPayload::from(std::mem::take(&mut self.buffer));
            let (store, key) = (self.client.store().clone(), self.key.clone());
            let put = self.client.run(async move { store.put(&key, payload).await });
            return put.map(drop).map_err(|problem| self.client.missing_bucket(problem));
        }
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        while !self.in_flight.is_empty() {
            self.wait_for_part()?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        let completed = self.client.run(async move {
            let completed = parts.complete().await;
            if completed.is_err() {
                // Best effort: the first error is returned.
                drop(parts.abort().await);
            }
            completed
        });
        completed.map(drop)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            // Best effort, without waiting: parts of an upload that is not finished are invisible.
            let abort = async move { drop(parts.abort().await) };
            drop(start(Requests::default(), abort, |()| {}));
        }
    }
}
