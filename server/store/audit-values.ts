/** What the audit log keeps of values: never a secret, nothing that a terminal obeys, and no more than can be read. */

/** A value before or after a change, by field. */
export type AuditValues = Readonly<Record<string, unknown>>;

/** Stands for a secret: that it changed is told, what it is never. */
const mask = '[masked]';

/** Names of fields whose values are secrets, alone or behind another word: `smtp_password`, `api_key`. */
const secretName =
  /(^|[_-])(password|passphrase|passwd|secret|secrets|token|authorization|cookie|credential|credentials|hash|otp|totp|recovery_codes|private_key|api_key|apikey|access_key|client_secret)$|^(key|code|codes|headers|env|environment)$/i;

/** Keys and tokens of ours, JSON web tokens, and what most vendors' keys look like, wherever they stand. */
const secretText =
  /\b(sk|pk|rt|bt|inv|ghp|gho|xox[a-z])[-_][A-Za-z0-9_-]{12,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bbearer\s+\S+/gi;

/** The user part of a URL. */
const urlCredentials = /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi;

const longestText = 500;
const longestList = 50;
const deepest = 6;

/** The fields of which the two differ, secrets masked; null where there is nothing to say. */
export function maskedChange(
  before: AuditValues | undefined,
  after: AuditValues | undefined,
): { before: string | null; after: string | null } {
  const differs = (name: string) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]);
  const side = (values: AuditValues | undefined) => {
    if (!values) return null;
    const entries = Object.entries(values).filter(([name, value]) => value !== undefined && differs(name));
    return JSON.stringify(masked(Object.fromEntries(entries)));
  };
  return { before: side(before), after: side(after) };
}

function masked(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return plainText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= deepest) return '…';
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.slice(0, longestList).map((item) => masked(item, depth + 1));
  const fields = Object.entries(value).slice(0, longestList);
  return Object.fromEntries(
    fields.map(([name, item]) => [
      plainText(name),
      secretName.test(name) && item !== null ? mask : masked(item, depth + 1),
    ]),
  );
}

/**
 * One line that no terminal obeys: control characters, line ends and what turns the direction of writing are spelled
 * out, secrets masked, and the rest is cut where it gets long.
 */
export function plainText(text: string): string {
  const hidden = text
    .slice(0, longestText * 4)
    .toWellFormed()
    .replace(urlCredentials, `$1${mask}@`)
    .replace(secretText, mask)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, spelledOut);
  return hidden.length <= longestText ? hidden : `${hidden.slice(0, longestText).toWellFormed()}…`;
}

function spelledOut(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
