// Reads a regular expression as ripgrep writes it, for searches that are made without it.

/** Names of classes within brackets, which JavaScript does not know. */
const NAMED_CLASSES: Readonly<Record<string, string>> = {
  alnum: 'a-zA-Z0-9',
  alpha: 'a-zA-Z',
  blank: ' \\t',
  digit: '0-9',
  lower: 'a-z',
  punct: '!-\\/:-@\\[-`{-~',
  space: '\\s',
  upper: 'A-Z',
  word: '\\w',
  xdigit: '0-9a-fA-F',
};

/** Whether a line fits the expression, or holds the plain text. @throws SyntaxError for what is none. */
export function lineMatcher(pattern: string, literal: boolean): (line: string) => boolean {
  if (literal) return (line) => line.includes(pattern);
  const { source, flags } = inJavaScript(pattern);
  const expression = new RegExp(source, /\\[pPu]\{/.test(source) ? `${flags}u` : flags);
  return (line) => expression.test(line);
}

function inJavaScript(pattern: string): { source: string; flags: string } {
  const [inline = '', asked = ''] = /^\(\?([imsu]+)\)/.exec(pattern) ?? [];
  const source = pattern
    .slice(inline.length)
    .replaceAll(/\\x\{|\\[pP]([A-Z])|\\.|\[:(\w+):\]|\(\?P</gs, (part, oneLetter?: string, name?: string) => {
      if (name !== undefined) return NAMED_CLASSES[name] ?? part;
      if (part === '(?P<') return '(?<';
      if (part === '\\x{') return '\\u{';
      if (oneLetter !== undefined) return `${part.slice(0, 2)}{${oneLetter}}`;
      // The beginning and the end of the text are those of the line.
      return part === '\\A' ? '^' : part === '\\z' ? '$' : part;
    });
  return { source, flags: [...'is'].filter((flag) => asked.includes(flag)).join('') };
}
