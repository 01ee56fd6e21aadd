/** Faults as they can be sent: the names in them are a stranger's. */
import type { SkillFault } from './skill-files.ts';

export function shownFault({ path, line, code, message }: SkillFault): SkillFault {
  return { path: path === null ? null : plain(path), line, code, message: plain(message) };
}

/** Names that nobody can read are shown as they can be sent. */
export function plain(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}')
    .toWellFormed()
    .slice(0, 500);
}
