/** The keys of the settings file that do nothing yet: the only ones that may lack a test, each with what brings it. */

/** A key ending in `.` stands for all keys below it; any other for itself alone. */
const laterParts: Readonly<Record<string, readonly string[]>> = {
  'sign-in to providers': ['providers.*.oauth.client.auth_url'],
  'the terminal': ['options.tui', 'options.tui.', 'options.notification_style'],
};

/** The later part that brings what a key does; null where the key does it already. */
export function laterPartOf(key: string): string | null {
  const found = Object.entries(laterParts).find(([, keys]) =>
    keys.some((one) => (one.endsWith('.') ? key.startsWith(one) : key === one)),
  );
  return found?.[0] ?? null;
}

/** Every key and every beginning of keys that is listed here, so that none outlives the key it names. */
export function listedKeys(): string[] {
  return Object.values(laterParts).flat();
}
