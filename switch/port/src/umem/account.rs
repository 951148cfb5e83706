//! Accounts: how many chunks each port may have, from when it opens until the last of its frames is free.

use super::{Account, AccountId, Owner, Standing, Umem};

#[cfg(doc)]
use super::MOST_PORTS;

impl Umem {
    /// Sets `reserved` chunks aside. `None` where fewer are left, or [`MOST_PORTS`] are open.
    pub(crate) fn open_account(
        &mut self,
        reserved: u32,
        held_max: u32,
        express_max: u32,
    ) -> Option<AccountId> {
        if self.unreserved.checked_sub(self.accounts[0].out)? < reserved {
            return None;
        }
        let vacant = self.accounts.iter().position(|account| account.standing == Standing::Vacant);
        let index = vacant.unwrap_or(self.accounts.len());
        let id = AccountId(u8::try_from(index).ok()?);
        let account =
            Account { standing: Standing::Open, reserved, out: 0, posted: 0, held_max, express_max };
        match vacant {
            Some(index) => self.accounts[index] = account,
            None => self.accounts.push(account),
        }
        self.unreserved -= reserved;
        Some(id)
    }

    /// Chunks that could still be set aside.
    pub(crate) fn available(&self) -> u32 {
        self.unreserved.saturating_sub(self.accounts[0].out)
    }

    /// Closes an account when the kernel has let go of the port's rings. With `withdraw` a device may still write to
    /// posted chunks; what the kernel took to send and did not complete is withdrawn in any case.
    pub(crate) fn close_account(&mut self, id: AccountId, withdraw: bool) {
        for index in 0..self.chunks.len() as u32 {
            let chunk = self.chunks[index as usize];
            match chunk.owner {
                Owner::Posted if chunk.account == id => {
                    self.accounts[usize::from(id.0)].posted -= 1;
                    if withdraw { self.withdraw(index) } else { self.release(index) }
                }
                Owner::Sending if chunk.sender == id => self.withdraw(index),
                _ => {}
            }
        }
        let account = &mut self.accounts[usize::from(id.0)];
        // What is still held comes back one by one.
        self.unreserved += account.reserved - account.out;
        account.reserved = account.out;
        account.held_max = 0;
        account.express_max = 0;
        account.standing = if account.out == 0 { Standing::Vacant } else { Standing::Closing };
    }

    fn withdraw(&mut self, index: u32) {
        let chunk = &mut self.chunks[index as usize];
        chunk.owner = Owner::Withdrawn;
        self.withdrawn += 1;
        let account = &mut self.accounts[usize::from(chunk.account.0)];
        account.out -= 1;
        // The chunk is lost to the account it came from, or to those set aside for nobody.
        if account.reserved > 0 {
            account.reserved -= 1;
            // Its quota shrinks with it, so that chunks to post are left.
            account.held_max = account.held_max.saturating_sub(1);
        } else {
            self.unreserved -= 1;
        }
        if account.standing == Standing::Closing && account.out == 0 {
            account.standing = Standing::Vacant;
        }
    }
}
