/** Secrets at rest: AES-256-GCM under the master key, each value bound to the row that it stands in. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

/** The master keys that count now: the first one seals, each of them opens. There are two while one takes over. */
export interface MasterKeys {
  readonly current: () => readonly Uint8Array[];
}

/** Seals what the database keeps, and opens it again. */
export interface Sealing {
  /** `rowId` names the only row in which the result can be opened. */
  seal(secret: Uint8Array, rowId: string): string;
  /** Throws where the value was changed, stands in another row, or was sealed with another master key. */
  open(sealed: string, rowId: string): Buffer;
}

const version = 'v1';
const nonceBytes = 12;
const tagBytes = 16;

/** A sealed value reads `v1.<key id>.<nonce>.<ciphertext and tag>`, the last two in base64url. */
export function createSealing(given: Uint8Array | MasterKeys): Sealing {
  const keys = given instanceof Uint8Array ? () => [given] : given.current;
  return {
    seal(secret, rowId) {
      const masterKey = keys()[0];
      if (!masterKey) throw new Error('There is no master key to seal with.');
      const keyId = idOf(masterKey);
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: tagBytes });
      cipher.setAAD(boundTo(keyId, rowId));
      const box = Buffer.concat([cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
      return [version, keyId, nonce.toString('base64url'), box.toString('base64url')].join('.');
    },
    open(sealed, rowId) {
      const { masterKey, keyId, nonce, box } = parse(sealed, keys(), rowId);
      const decipher = createDecipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: tagBytes });
      decipher.setAAD(boundTo(keyId, rowId));
      decipher.setAuthTag(box.subarray(-tagBytes));
      return openWith(decipher, box.subarray(0, -tagBytes), rowId);
    },
  };
}

interface Parsed {
  readonly masterKey: Uint8Array;
  readonly keyId: string;
  readonly nonce: Buffer;
  readonly box: Buffer;
}

function parse(sealed: string, keys: readonly Uint8Array[], rowId: string): Parsed {
  const [form, keyId = '', nonce = '', box = '', ...rest] = sealed.split('.');
  if (form !== version || rest.length > 0)
    throw new Error(`The sealed value of ${rowId} is not one of this program.`);
  const masterKey = keys.find((key) => idOf(key) === keyId);
  if (!masterKey) {
    throw new Error(
      `The secret of ${rowId} was sealed with the master key ${keyId}, and this server has ${keys.map(idOf).join(' and ')}: give it the master key that belongs to this database.`,
    );
  }
  return { masterKey, keyId, nonce: Buffer.from(nonce, 'base64url'), box: Buffer.from(box, 'base64url') };
}

function openWith(decipher: ReturnType<typeof createDecipheriv>, ciphertext: Buffer, rowId: string): Buffer {
  try {
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch (cause) {
    throw new Error(`The sealed value of ${rowId} was changed, or belongs to another row.`, { cause });
  }
}

/** Tells master keys apart without telling anything about them. */
export function idOf(masterKey: Uint8Array): string {
  return createHash('sha256').update('service master key id\0').update(masterKey).digest('hex').slice(0, 12);
}

function boundTo(keyId: string, rowId: string): Buffer {
  return Buffer.from(`${version}\0${keyId}\0${rowId}`);
}
