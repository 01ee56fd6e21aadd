/** Variables that change nothing about which programs a command starts, or what they do. */
import type { CommandWord } from './command-words.ts';

/** Whether a variable of this name changes nothing but what is read of it. */
export function isHarmlessName(name: string): boolean {
  return (
    /^[a-z_][a-z0-9_]*$/.test(name) &&
    name !== '_' &&
    name !== 'histchars' &&
    !name.endsWith('_proxy') &&
    name !== 'auto_resume'
  );
}

/**
 * Whether this variable, given to one command, changes no more than how it writes its output. Of a language with a slash
 * the C library makes the path of a file that it loads; of a time zone, too, but then below its own folder.
 */
export function isHarmlessForCommand(name: string, { text }: CommandWord): boolean {
  const value = text?.slice(name.length + 1) ?? '/';
  if (name === 'TZ') return /^[\w+-]*(\/[\w+-]+)*$/.test(value) && !value.startsWith('/');
  return (
    /^(LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CI|COLUMNS|LINES)$/.test(name) && /^[^/\\]*$/.test(value)
  );
}
