/** Secrets at rest: AES-256-GCM under the master key, each value bound to the row that it stands in. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

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
export function createSealing(masterKey: Uint8Array): Sealing {
  const keyId = idOf(masterKey);
  return {
    seal(secret, rowId) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: tagBytes });
      cipher.setAAD(boundTo(keyId, rowId));
      const box = Buffer.concat([cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
      return [version, keyId, nonce.toString('base64url'), box.toString('base64url')].join('.');
    },
    open(sealed, rowId) {
      const { nonce, box } = parse(sealed, keyId, rowId);
      const decipher = createDecipheriv('aes-256-gcm', masterKey, nonce, { authTagLength: tagBytes });
      decipher.setAAD(boundTo(keyId, rowId));
      decipher.setAuthTag(box.subarray(-tagBytes));
      return openWith(decipher, box.subarray(0, -tagBytes), rowId);
    },
  };
}

function parse(sealed: string, keyId: string, rowId: string): { nonce: Buffer; box: Buffer } {
  const [form, sealedUnder, nonce = '', box = '', ...rest] = sealed.split('.');
  if (form !== version || rest.length > 0)
    throw new Error(`The sealed value of ${rowId} is not one of this program.`);
  if (sealedUnder !== keyId) {
    throw new Error(
      `The secret of ${rowId} was sealed with the master key ${sealedUnder}, and this server has ${keyId}: give it the master key that belongs to this database.`,
    );
  }
  return { nonce: Buffer.from(nonce, 'base64url'), box: Buffer.from(box, 'base64url') };
}

function openWith(decipher: ReturnType<typeof createDecipheriv>, ciphertext: Buffer, rowId: string): Buffer {
  try {
    return Buffer.concat([decipher.update(ciphertext), decipher.final()]);
  } catch (cause) {
    throw new Error(`The sealed value of ${rowId} was changed, or belongs to another row.`, { cause });
  }
}

/** Tells master keys apart without telling anything about them. */
function idOf(masterKey: Uint8Array): string {
  return createHash('sha256').update('service master key id\0').update(masterKey).digest('hex').slice(0, 12);
}

function boundTo(keyId: string, rowId: string): Buffer {
  return Buffer.from(`${version}\0${keyId}\0${rowId}`);
}
