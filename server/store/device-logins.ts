/** Device logins: what waits for a person to confirm it, what became of it, and who tries codes. */
import type { Knex } from 'knex';
import type { DeviceLogin } from '../contract/api.ts';
import { homeOf, recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { holdCredential } from './hold-credential.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { sweepTable } from './sweeps.ts';
import { timestamp } from './timestamps.ts';
import { toUserThen, type UserRow, type UserThen } from './user-row.ts';

export interface OpenDeviceLogin {
  readonly deviceHash: string;
  readonly userCode: string;
  readonly clientName: string | null;
  readonly address: string | null;
  /** By which those that wait are counted. */
  readonly place: string;
  readonly intervalSeconds: number;
  readonly expiresAt: Date;
}

/** What a poll finds; the words are those of RFC 8628. */
export type DevicePoll =
  | 'authorization_pending'
  | 'slow_down'
  | 'access_denied'
  | 'expired_token'
  | (UserThen & { readonly clientName: string | null });

/** Somebody tries codes, and has to wait. */
export interface HeldUp {
  readonly waitSeconds: number;
}

export interface DeviceLogins {
  /** `taken` where another device has the code; `too_many` where `most` at this place wait already. */
  open(device: OpenDeviceLogin, most: number, now: Date): Promise<'opened' | 'taken' | 'too_many'>;
  /** Who has let it in; the login that begins with it, in `createUnchanged`, uses it up. */
  poll(deviceHash: string, now: Date): Promise<DevicePoll>;
  /** What waits with this code; null where nothing does, which counts as a miss. */
  find(reach: Reach, userCode: string, now: Date): Promise<DeviceLogin | HeldUp | null>;
  /** The first reply counts. */
  reply(
    reach: Reach,
    userCode: string,
    decision: 'allow' | 'deny',
    now: Date,
  ): Promise<'replied' | 'answered' | HeldUp | null>;
  /** Forgets what expired before; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

interface DeviceRow {
  device_hash: string;
  user_code: string;
  client_name: string | null;
  address: string | null;
  place: string;
  status: 'pending' | 'allowed' | 'denied';
  user_id: string | null;
  login_id: string | null;
  interval_seconds: number;
  polled_at: number | null;
  created_at: number;
  expires_at: number;
}

interface MissesRow {
  user_id: string;
  misses: number;
  since: number;
}

/** A person mistypes a code a few times; of 20^8 codes nobody guesses one at this rate. */
const mostMisses = 10;
const missesWithinMs = 600_000;
/** What a device waits longer from each time that it asks too often (RFC 8628, 3.5). */
const slowDownSeconds = 5;
const longestInterval = 60;
/** A poll that left in time may arrive a little early. */
const earlyMs = 500;

export function deviceLoginRepository({ database }: StoreParts): DeviceLogins {
  return {
    async open(device, most, now) {
      try {
        return await database.write('installation', (sql) => open(sql, device, most, now.getTime()));
      } catch (error) {
        if (isDuplicate(error)) return 'taken';
        throw error;
      }
    },
    poll: (deviceHash, now) => database.write('installation', (sql) => poll(sql, deviceHash, now.getTime())),
    // What waits belongs to nobody yet: it is found by its code alone.
    find: ({ userId }, userCode, now) =>
      database.write('installation', async (sql) => {
        const row = await lookUp(sql, userId, userCode, now.getTime());
        if (row === null || 'waitSeconds' in row) return row;
        return row.status === 'pending' ? toDeviceLogin(row) : null;
      }),
    reply: (reach, userCode, decision, now) =>
      database.write('installation', async (sql) => {
        const row = await lookUp(sql, reach.userId, userCode, now.getTime());
        if (row === null || 'waitSeconds' in row) return row;
        if (row.status !== 'pending') return 'answered';
        const login_id = await holdCredential(sql, reach);
        const status = decision === 'allow' ? 'allowed' : 'denied';
        await sql<DeviceRow>('device_logins')
          .where({ device_hash: row.device_hash })
          .update({ status, user_id: reach.userId, login_id });
        await recordReply(sql, reach, row, decision);
        return 'replied';
      }),
    prune: (before) => sweepTable(database, 'device_logins', 'expires_at', before.getTime()),
  };
}

async function open(
  sql: Knex.Transaction,
  device: OpenDeviceLogin,
  most: number,
  now: number,
): Promise<'opened' | 'too_many'> {
  const { address, place } = device;
  const waiting = await sql<DeviceRow>('device_logins')
    .where({ place, status: 'pending' })
    .where('expires_at', '>', now)
    .limit(most)
    .select('device_hash');
  if (waiting.length >= most) return 'too_many';
  await sql('device_logins').insert({
    device_hash: device.deviceHash,
    user_code: device.userCode,
    client_name: device.clientName,
    address,
    place,
    status: 'pending',
    interval_seconds: device.intervalSeconds,
    created_at: now,
    expires_at: device.expiresAt.getTime(),
  });
  return 'opened';
}

async function poll(sql: Knex.Transaction, deviceHash: string, now: number): Promise<DevicePoll> {
  const which = { device_hash: deviceHash };
  const row = await sql<DeviceRow>('device_logins').where(which).forUpdate().first();
  if (!row || row.expires_at <= now) return 'expired_token';
  if (row.status === 'denied') return 'access_denied';
  if (row.status === 'allowed') {
    const user = await sql<UserRow>('users')
      .where({ id: row.user_id ?? '' })
      .first();
    return user ? { ...toUserThen(user), clientName: row.client_name } : 'expired_token';
  }
  const early = row.polled_at !== null && now - row.polled_at < row.interval_seconds * 1000 - earlyMs;
  const interval_seconds = early
    ? Math.min(row.interval_seconds + slowDownSeconds, longestInterval)
    : row.interval_seconds;
  await sql<DeviceRow>('device_logins').where(which).update({ polled_at: now, interval_seconds });
  return early ? 'slow_down' : 'authorization_pending';
}

/** For the transaction that begins its login: of two at once one gets it, and what has ended meanwhile gets none. */
export async function takeDevice(
  sql: Knex.Transaction,
  device_hash: string,
  user_id: string,
): Promise<boolean> {
  const which = { device_hash, user_id, status: 'allowed' };
  return (await sql('device_logins').where(which).delete()) > 0;
}

/** Counts whoever names a code that no device has, and looks for nobody who did so too often. */
async function lookUp(
  sql: Knex.Transaction,
  userId: string,
  userCode: string,
  now: number,
): Promise<DeviceRow | HeldUp | null> {
  await sql('user_code_misses')
    .insert({ user_id: userId, misses: 0, since: now })
    .onConflict('user_id')
    .ignore();
  const counted = await sql<MissesRow>('user_code_misses').where({ user_id: userId }).forUpdate().first();
  const current = counted && now - counted.since < missesWithinMs ? counted : { misses: 0, since: now };
  if (current.misses >= mostMisses)
    return { waitSeconds: Math.max(1, Math.ceil((current.since + missesWithinMs - now) / 1000)) };
  const row = await sql<DeviceRow>('device_logins').where({ user_code: userCode }).forUpdate().first();
  if (row && row.expires_at > now) return row;
  await sql<MissesRow>('user_code_misses')
    .where({ user_id: userId })
    .update({ misses: current.misses + 1, since: current.since });
  return null;
}

async function recordReply(
  sql: Knex.Transaction,
  reach: Reach,
  row: DeviceRow,
  decision: 'allow' | 'deny',
): Promise<void> {
  recordAudit(sql, reach, {
    action: `device_login.${decision}`,
    target: { type: 'user', id: reach.userId },
    organizationId: await homeOf(sql, reach.userId),
    after: { client_name: row.client_name, address: row.address },
  });
}

function toDeviceLogin(row: DeviceRow): DeviceLogin {
  return {
    user_code: row.user_code,
    client_name: row.client_name,
    address: row.address,
    created_at: timestamp(row.created_at),
    expires_at: timestamp(row.expires_at),
  };
}
