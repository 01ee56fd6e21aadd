/** The keys that sign access tokens: made at the first start, private parts sealed, public parts kept in memory. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { SigningKeyRecord, SigningKeyRecords, StoredSigningKey } from './records.ts';
import type { Sealing } from './sealing.ts';

/** The newest key signs until it is old; every key verifies until its last token has expired. No restart is needed. */
export interface SigningKeys {
  signer(): Promise<Signer>;
  /** Null for a key that is unknown or was removed. */
  verifier(kid: string): Promise<KeyObject | null>;
}

export interface Signer {
  readonly kid: string;
  readonly privateKey: KeyObject;
}

/** After so long another key signs: what somebody has learnt of an old one is worth little then. */
const signsForMs = 30 * 86_400_000;
/** Longer than a token of a key lives that another node took for the newest a moment after it was not. */
const keptForMs = 3_600_000;
/** Within this time a rotation on one node reaches the others. */
const freshForMs = 60_000;
/** An unknown key id makes the server look again, but not more often: a stranger can invent as many as they like. */
const lookAgainMs = 1_000;

/** The form of our key ids: SHA-256 in base64url. */
const thumbprint = /^[\w-]{43}$/;

/** Reads the keys when they are needed, and makes the first one where there is none. */
export function createSigningKeys(records: SigningKeyRecords, sealing: Sealing, clock: Clock): SigningKeys {
  let held: { readonly since: number; readonly keys: Promise<Keys> } | null = null;
  let nextLook: Promise<Keys> | null = null;

  /** One read for all who ask at the same time; a failed one is not kept. */
  function current(maximumAgeMs: number): Promise<Keys> {
    if (held && age(held.since) < maximumAgeMs) return held.keys;
    const since = clock.now().getTime();
    const reading = { since, keys: read(records, sealing, since) };
    held = reading;
    reading.keys.catch(() => {
      if (held === reading) held = null;
    });
    return reading.keys;
  }

  /** Those who come too early wait together: the key may be one that another node has just made. */
  async function lookedAgain(): Promise<Keys> {
    const wait = held ? lookAgainMs - age(held.since) : 0;
    if (wait <= 0) return current(lookAgainMs);
    nextLook ??= delay(wait, undefined, { ref: false }).then(() => {
      nextLook = null;
      return current(0);
    });
    return nextLook;
  }

  function age(since: number): number {
    // A clock that was set back makes what is held old, not eternal.
    return Math.abs(clock.now().getTime() - since);
  }

  return {
    async signer() {
      return (await current(freshForMs)).signer;
    },
    async verifier(kid) {
      if (!thumbprint.test(kid)) return null;
      const known = (await current(freshForMs)).verifiers.get(kid);
      return known ?? (await lookedAgain()).verifiers.get(kid) ?? null;
    },
  };
}

interface Keys {
  readonly signer: Signer;
  readonly verifiers: ReadonlyMap<string, KeyObject>;
}

async function read(records: SigningKeyRecords, sealing: Sealing, now: number): Promise<Keys> {
  const stored = await rotated(records, sealing, now);
  const [newest] = stored;
  if (!newest) throw new Error('no signing key is stored, although one was made just now');
  const pem = sealing.open(newest.sealedPrivateKey, rowId(newest.kid));
  return {
    signer: { kid: newest.kid, privateKey: createPrivateKey(pem) },
    verifiers: new Map(
      stored.map(({ kid, publicJwk }) => [kid, createPublicKey({ key: publicJwk, format: 'jwk' })]),
    ),
  };
}

/** The newest first. Two servers may both make a key at once: then there are two good keys, and the newest signs. */
async function rotated(
  records: SigningKeyRecords,
  sealing: Sealing,
  now: number,
): Promise<readonly StoredSigningKey[]> {
  const stored = await records.list();
  const [newest] = stored;
  if (!newest || now - newest.createdAt.getTime() >= signsForMs) {
    await records.add(newSigningKey(sealing));
    return records.list();
  }
  // Each has signed until the one before it in the list was made.
  const isOver = (_: StoredSigningKey, n: number) => {
    const successor = stored[n - 1];
    return successor !== undefined && now - successor.createdAt.getTime() >= keptForMs;
  };
  for (const { kid } of stored.filter(isOver)) await records.remove(kid);
  return stored;
}

/** A key pair as it is stored; its id is the thumbprint of its public part (RFC 7638). */
export function newSigningKey(sealing: Sealing): SigningKeyRecord {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const publicJwk = { ...publicKey.export({ format: 'jwk' }) };
  const kid = thumbprintOf(publicJwk);
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  return {
    kid,
    publicJwk,
    sealedPrivateKey: sealing.seal(Buffer.from(pem), rowId(kid)),
  };
}

/** RFC 7638: the members that a key of this kind needs (RFC 8037), in the order of their names. */
function thumbprintOf({ crv, kty, x }: JsonWebKey): string {
  return createHash('sha256').update(JSON.stringify({ crv, kty, x })).digest('base64url');
}

function rowId(kid: string): string {
  return `signing_keys/${kid}`;
}
