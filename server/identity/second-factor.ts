/** The second factor: one-time codes of an authenticator app (RFC 6238), each good once, and codes for when it is lost. */
import { randomInt } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import type { Clock } from '../clock.ts';
import type { Mfa, MfaConfirmed, MfaEnrolled, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { LoginBrake } from './login-brake.ts';
import { hashOf } from './opaque-tokens.ts';
import type { Principal } from './principal.ts';
import type { Origin, SecondFactorRecord, SecondFactorRecords } from './records.ts';
import type { Sealing } from './sealing.ts';

export interface SecondFactors {
  state(userId: string): Promise<Mfa>;
  /** Throws `mfa_conflict` where one is on. */
  enroll(principal: Principal): Promise<MfaEnrolled>;
  /** Throws `otp_invalid` or `mfa_conflict`. */
  confirm(principal: Principal, code: string): Promise<MfaConfirmed>;
  /** Throws `otp_invalid` or `mfa_conflict`. */
  disable(principal: Principal, code: string): Promise<void>;
  /** At a login, once the password was right. Throws `otp_required` where the code is missing or not good. */
  require(user: User, code: string | undefined, origin: Origin): Promise<void>;
}

const issuer = 'service';
/** What every app can do. */
const settings = { algorithm: 'SHA1', digits: 6, period: 30 };
/** Codes of the neighbouring steps pass: clocks differ, and people type slowly. */
const stepsAround = 1;
const recoveryCodes = 10;
/** 80 bits: too many to be guessed, also from a stolen hash. No letter that looks like another. */
const recoveryLength = 16;
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

export function createSecondFactors(
  records: SecondFactorRecords,
  sealing: Sealing,
  brake: LoginBrake,
  clock: Clock,
): SecondFactors {
  /** The time step that the code belongs to; null where it belongs to none of those that pass now. */
  function stepOf(userId: string, { sealedSecret }: SecondFactorRecord, code: string): number | null {
    const timestamp = clock.now().getTime();
    const secret = Secret.fromBase32(sealing.open(sealedSecret, rowId(userId)).toString());
    const delta = TOTP.validate({ ...settings, secret, token: code, timestamp, window: stepsAround });
    return delta === null ? null : TOTP.counter({ ...settings, timestamp }) + delta;
  }

  /** Whether the code is good; it is used up then. */
  async function take(
    actor: { readonly userId: string; readonly origin?: Origin | undefined },
    factor: SecondFactorRecord,
    code: string,
  ): Promise<boolean> {
    const { userId } = actor;
    // Recovery codes pass the brake: nobody can guess one, and whoever knows the password may keep nobody else out.
    if (!isAppCode(code)) return records.takeRecoveryCode(actor, recoveryHash(userId, code));
    const guarded = await brake.guard('otp', userId);
    const step = stepOf(userId, factor, code);
    if (step === null || !(await records.takeStep(userId, factor.sealedSecret, step))) return false;
    await guarded.forget();
    return true;
  }

  return {
    async state(userId) {
      const factor = await records.find(userId);
      return {
        status: factor === null ? 'off' : factor.confirmedAt ? 'on' : 'pending',
        confirmed_at: factor?.confirmedAt?.toISOString() ?? null,
        recovery_codes_left: factor?.recoveryCodesLeft ?? 0,
      };
    },
    async enroll(principal) {
      const { base32 } = new Secret({ size: 20 });
      await records.enroll(principal, sealing.seal(Buffer.from(base32), rowId(principal.userId)));
      const totp = new TOTP({ ...settings, issuer, label: principal.email, secret: base32 });
      return { secret: base32, otpauth_uri: totp.toString() };
    },
    async confirm(principal, code) {
      const factor = await records.find(principal.userId);
      if (!factor || factor.confirmedAt)
        throw new Problem('mfa_conflict', 'No second factor waits to be confirmed; begin with enrollMfa.');
      const guarded = await brake.guard('otp', principal.userId);
      const step = stepOf(principal.userId, factor, code);
      if (step === null) throw notGood();
      await guarded.forget();
      const codes = Array.from({ length: recoveryCodes }, newRecoveryCode);
      const hashes = codes.map((one) => recoveryHash(principal.userId, one));
      await records.confirm(principal, factor.sealedSecret, step, hashes);
      return { recovery_codes: codes };
    },
    async disable(principal, code) {
      const factor = await records.find(principal.userId);
      if (!factor?.confirmedAt) throw new Problem('mfa_conflict', 'There is no second factor to switch off.');
      if (!(await take(principal, factor, code))) throw notGood();
      await records.remove(principal);
    },
    async require({ id: userId }, code, origin) {
      const factor = await records.find(userId);
      if (!factor?.confirmedAt) return;
      if (code === undefined)
        throw new Problem(
          'otp_required',
          'This account has a second factor; send the code of the authenticator app as otp.',
        );
      if (await take({ userId, origin }, factor, code)) return;
      throw new Problem(
        'otp_required',
        'The one-time code is wrong, too old, or was used before; send the next one, or a recovery code.',
        { concerns: { type: 'user', id: userId } },
      );
    },
  };
}

function notGood(): Problem {
  return new Problem(
    'otp_invalid',
    'The one-time code is wrong, too old, or was used before; send the next one.',
  );
}

function isAppCode(code: string): boolean {
  return /^\d{6}$/.test(code);
}

function newRecoveryCode(): string {
  const text = Array.from({ length: recoveryLength }, () => alphabet[randomInt(alphabet.length)]).join('');
  return text.replace(/(.{4})(?=.)/g, '$1-');
}

/** As people type it: without dashes, in either case, with letters that look like digits. */
function recoveryHash(userId: string, code: string): string {
  const plain = code.toLowerCase().replace(/[- ]/g, '').replace(/o/g, '0').replace(/[il]/g, '1');
  return hashOf(`${userId}:${plain}`);
}

function rowId(userId: string): string {
  return `second_factors/${userId}`;
}
