/** The settings of logging in through OpenID Connect: SERVICE_OIDC_* for each provider. */
import { Fault, type SettingSource } from './setting-source.ts';

/** One OpenID Connect provider that people log in through. */
export interface OidcProviderSettings {
  /** As it stands in paths. */
  readonly name: string;
  /** What people call it. */
  readonly label: string;
  /** Its issuer identifier, to the letter. */
  readonly issuer: string;
  readonly clientId: string;
  /** Null for a public client: PKCE alone then proves who asks. */
  readonly clientSecret: string | null;
  readonly scopes: string;
  /** `open` makes an account for whoever the provider vouches for; `invite` lets in those alone who have linked one. */
  readonly registration: 'open' | 'invite';
  /** The organization that such accounts join; null gives each one of their own. */
  readonly organizationId: string | null;
  /** Their role there. */
  readonly role: 'admin' | 'member' | 'viewer';
  /** Whether its e-mail addresses count as verified although it does not say so. */
  readonly trustEmail: boolean;
}

/** Every provider that SERVICE_OIDC_PROVIDERS names. */
export function readOidcProviders(
  source: SettingSource,
  { loopback, publicUrl }: { readonly loopback: boolean; readonly publicUrl: string | null },
): readonly OidcProviderSettings[] {
  const names = source.read<readonly string[]>({
    variable: 'SERVICE_OIDC_PROVIDERS',
    flag: 'oidc-providers',
    meaning:
      'Names of OpenID Connect providers to log in through, with commas between. For each, as corp, there are SERVICE_OIDC_CORP_ISSUER, _CLIENT_ID, _CLIENT_SECRET (or _CLIENT_SECRET_FILE), _LABEL, _SCOPES, _REGISTRATION, _ORGANIZATION, _ROLE and _TRUST_EMAIL.',
    fallback: [],
    parse: providerNames,
  });
  if (names.length > 0 && !loopback && publicUrl === null)
    source.fault(
      'SERVICE_OIDC_PROVIDERS needs SERVICE_PUBLIC_URL: it is where providers send people back to.',
    );
  return names.map((name) => readProvider(source, name));
}

function readProvider(source: SettingSource, name: string): OidcProviderSettings {
  const prefix = `SERVICE_OIDC_${name.toUpperCase().replaceAll('-', '_')}`;
  const text = (suffix: string, meaning: string, fallback: string, parse = notEmpty) =>
    source.read({ variable: `${prefix}_${suffix}`, meaning, fallback, parse });
  const settings: OidcProviderSettings = {
    name,
    label: text('LABEL', `What people call ${name}.`, name),
    issuer: text(
      'ISSUER',
      `The issuer of ${name}, as https://login.example.com. It may be in a private network; endpoints that it names at another origin there have to stand in SERVICE_OUTBOUND_ALLOW.`,
      '',
      issuer,
    ),
    clientId: text('CLIENT_ID', `The client id of this server at ${name}.`, ''),
    clientSecret: source.read<string | null>({
      variable: `${prefix}_CLIENT_SECRET`,
      meaning: `The client secret at ${name}; none for a public client. ${prefix}_CLIENT_SECRET_FILE names a file that holds it.`,
      fallback: null,
      secret: true,
      parse: notEmpty,
    }),
    scopes: text('SCOPES', `What ${name} is asked for.`, 'openid email profile', scopes),
    registration: source.read({
      variable: `${prefix}_REGISTRATION`,
      meaning: `open: whoever ${name} vouches for gets an account. invite: only accounts that were linked log in.`,
      fallback: 'invite',
      parse: (value): 'open' | 'invite' | Fault =>
        value === 'open' || value === 'invite' ? value : new Fault('must be open or invite.'),
    }),
    organizationId: source.read<string | null>({
      variable: `${prefix}_ORGANIZATION`,
      meaning: `The id of the organization that accounts made through ${name} join; without it each gets one of its own.`,
      fallback: null,
      parse: organizationId,
    }),
    role: source.read({
      variable: `${prefix}_ROLE`,
      meaning: 'Their role in it.',
      fallback: 'member',
      parse: role,
    }),
    trustEmail: source.read({
      variable: `${prefix}_TRUST_EMAIL`,
      meaning: `Whether e-mail addresses from ${name} count as verified although it does not say so.`,
      fallback: false,
      parse: yesOrNo,
    }),
  };
  for (const [suffix, value] of [
    ['ISSUER', settings.issuer],
    ['CLIENT_ID', settings.clientId],
  ])
    if (value === '') source.fault(`${prefix}_${suffix} is missing: SERVICE_OIDC_PROVIDERS names ${name}.`);
  return settings;
}

function providerNames(text: string): readonly string[] | Fault {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => !/^[a-z][a-z0-9-]{0,31}$/.test(name));
  if (wrong !== undefined)
    return new Fault(
      `must list names of small letters, digits and hyphens; ${JSON.stringify(wrong)} is none.`,
    );
  return new Set(names).size === names.length ? names : new Fault('names a provider twice.');
}

function issuer(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash)
    return new Fault('must be the address of an issuer, as https://login.example.com.');
  return isSafe(url) ? text : new Fault('must begin with https://, except on this machine.');
}

/** TLS, or a place that only this machine reaches. */
function isSafe({ protocol, hostname }: URL): boolean {
  return (
    protocol === 'https:' || hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')
  );
}

function scopes(text: string): string | Fault {
  const words = text.split(/[\s,]+/).filter((word) => word !== '');
  if (!words.every((word) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(word)))
    return new Fault('must list scopes with spaces between.');
  return words.includes('openid') ? words.join(' ') : ['openid', ...words].join(' ');
}

function organizationId(text: string): string | Fault {
  return /^org_[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text)
    ? text
    : new Fault('must be the id of an organization, which begins with org_.');
}

function role(text: string): OidcProviderSettings['role'] | Fault {
  if (text === 'admin' || text === 'member' || text === 'viewer') return text;
  return new Fault('must be admin, member or viewer.');
}

function notEmpty(text: string): string | Fault {
  return text.trim() === '' ? new Fault('must not be empty.') : text.trim();
}

function yesOrNo(text: string): boolean | Fault {
  if (/^(true|1|yes)$/i.test(text)) return true;
  return /^(false|0|no)$/i.test(text) ? false : new Fault('must be true or false.');
}
