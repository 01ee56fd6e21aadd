/** Writes text so that a person sees all of it, as it is, and a terminal obeys nothing in it. */

/**
 * What a terminal would obey, hide or show elsewhere: control and format characters, spaces other than the usual one,
 * marks drawn over their neighbours, letters that are written from right to left, what stands for nothing, and the
 * signs that are used below for what is written out.
 */
const hidden = new RegExp(
  [
    '\\p{C}|\\p{Zl}|\\p{Zp}|\\p{Mn}|\\p{Me}|(?! )\\p{Zs}|\\p{Default_Ignorable_Code_Point}|\\u2800',
    '[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]|[‹›]',
  ].join('|'),
  'gu',
);
/** So many spaces could push what follows out of sight. */
const longGap = / {9,}/g;

/** The text in quotation marks, like a JSON string; two different texts never look the same. */
export function visibleText(text: string): string {
  const inner = JSON.stringify(text).slice(1, -1);
  const visible = inner.replace(hidden, escaped).replace(longGap, (gap) => `‹${gap.length} spaces›`);
  return `"${visible}"`;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = code.toString(16);
  return code > 0xffff ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}
