/** The spelling by which an e-mail address is found: one person, however they write it. */

export function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase();
}
