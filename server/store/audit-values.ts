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
  /\b(sk|pk|rt|bt|pr|inv|ghp|gho|xox[a-z])[-_][A-Za-z0-9_-]{12,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bbearer\s+\S+/gi;

/** The user part of a URL. */
const urlCredentials = /(\b[a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@]+@/gi;

const longestText = 500;
const longestList = 50;
const mostFields = 100;
const deepest = 6;

/** The fields of which the two differ, secrets masked; null where there is nothing to say. */
export function maskedChange(
  before: AuditValues | undefined,
  after: AuditValues | undefined,
): { before: string | null; after: string | null } {
  const [was, is] = [fieldsOf(before), fieldsOf(after)];
  const side = (fields: Fields, others: Fields) => {
    const differing = [...fields].filter(([name, { raw }]) => others.get(name)?.raw !== raw);
    const told = differing.slice(0, mostFields).map(([name, { shown }]) => [name, shown]);
    return told.length === 0 ? null : JSON.stringify(Object.fromEntries(told));
  };
  return { before: side(was, is), after: side(is, was) };
}

type Fields = Map<string, { readonly raw: string; readonly shown: unknown }>;

/** One level of fields: what stands in another is named with a dot. */
function fieldsOf(
  values: AuditValues | undefined,
  prefix = '',
  depth = 0,
  found: Fields = new Map(),
): Fields {
  for (const [name, value] of Object.entries(values ?? {})) {
    if (value === undefined) continue;
    const path = `${prefix}${plainText(name)}`;
    if (isRecord(value) && depth < deepest && !secretName.test(name))
      fieldsOf(value, `${path}.`, depth + 1, found);
    else found.set(path, { raw: JSON.stringify(value) ?? '', shown: shownAs(name, value) });
  }
  return found;
}

function shownAs(name: string, value: unknown): unknown {
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return value;
  if (secretName.test(name)) return mask;
  if (Array.isArray(value)) return value.slice(0, longestList).map((item) => shownAs('', item));
  return plainText(typeof value === 'string' ? value : JSON.stringify(value));
}

function isRecord(value: unknown): value is AuditValues {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
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
