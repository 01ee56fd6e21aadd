/** The settings of the server process: flags and SERVICE_* variables, nothing else. */
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import proxyAddr from 'proxy-addr';
import { allowListFault } from '../outbound/outbound.ts';
import { type OidcProviderSettings, readOidcProviders } from './oidc-settings.ts';
import { type RateLimits, readRateLimits } from './rate-limits.ts';
import { createSettingSource, Fault, type SettingSource, type Variables } from './setting-source.ts';

export { ServerSettingsError } from './setting-source.ts';

/** How this process serves. */
export interface ServerSettings {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** What was asked for; a second account turns `single` into `multi`. */
  readonly mode: 'single' | 'multi';
  /** Where database and files live; absolute. */
  readonly dataDirectory: string;
  /** The folder of the global service.json; absolute. */
  readonly globalConfigDirectory: string;
  readonly corsOrigins: readonly string[];
  /** Private places that requests of accounts and models may reach all the same. */
  readonly outboundAllow: readonly string[];
  /** Where a SearXNG answers the searches of agents; null for none. */
  readonly webSearchUrl: string | null;
  readonly debug: boolean;
  /** Through whom people log in besides. */
  readonly oidcProviders: readonly OidcProviderSettings[];
  readonly registration: 'open' | 'invite';
  /** How often one address may fail to log in to one account within a quarter of an hour; 0 brakes nothing. */
  readonly loginAttempts: number;
  /** Whose X-Forwarded-For counts. */
  readonly trustedProxies: readonly string[];
  /** How people reach this server, for links and redirects; null where nobody said it. */
  readonly publicUrl: string | null;
  /** The mail server; null where this server sends no mail. */
  readonly smtpUrl: string | null;
  /** The sender of its mails; set where `smtpUrl` is. */
  readonly mailFrom: string | null;
  readonly adminEmail: string | null;
  readonly adminPassword: string | null;
  readonly masterKeyFile: string | null;
  readonly metrics: 'public' | 'operator' | 'off';
  /** Whether an older database is copied before it is migrated. */
  readonly migrationBackup: boolean;
  readonly leaseSeconds: number;
  readonly keepaliveSeconds: number;
  readonly stallSeconds: number;
  /** Each workspace is a folder in here; absolute. */
  readonly workspacesDirectory: string;
  /** Below these, folders that are there already may become workspaces; absolute. */
  readonly workspaceRoots: readonly string[];
  /** Null takes SQLite in the data directory. */
  readonly databaseUrl: string | null;
  /** How long a person has to answer what a run asks. */
  readonly answerSeconds: number;
  /** How long a model provider may be silent. */
  readonly providerSilenceSeconds: number;
  /** How long runs at work may go on once the server is told to stop. */
  readonly drainSeconds: number;
  /** How often somebody may call; a class that is not named is not limited. */
  readonly rateLimits: RateLimits;
  /** How long the answers to requests with an Idempotency-Key are kept. */
  readonly idempotencyHours: number;
  readonly streamsPerUser: number;
  readonly streamsTotal: number;
  /** Whether every answer is checked against the contract before it is sent. */
  readonly strict: boolean;
  /** SERVICE_* variables that are no settings of this release. */
  readonly ignoredVariables: readonly string[];
}

/** The settings, and the help that shows them. */
export interface ReadServerSettings {
  readonly settings: ServerSettings;
  /** Whether `--help` asks for the text instead of a start. */
  readonly helpWanted: boolean;
  /** Every setting with its value and where it came from; secrets are not shown. */
  readonly help: string;
}

/** Throws ServerSettingsError with every fault at once. `--help` is answered even where something is wrong. */
export function readServerSettings(argv: readonly string[], variables: Variables): ReadServerSettings {
  const helpWanted = argv.includes('--help') || argv.includes('-h');
  const flags = argv.filter((flag) => flag !== '--help' && flag !== '-h');
  const source = createSettingSource(flags, variables);
  const settings = { ...readAll(source, variables), ignoredVariables: source.unread() };
  if ((settings.adminEmail === null) !== (settings.adminPassword === null))
    source.fault('SERVICE_ADMIN_EMAIL and SERVICE_ADMIN_PASSWORD belong together; set both, or neither.');
  if ((settings.smtpUrl === null) !== (settings.mailFrom === null))
    source.fault('SERVICE_SMTP_URL and SERVICE_MAIL_FROM belong together; set both, or neither.');
  if (settings.smtpUrl !== null && settings.publicUrl === null)
    source.fault('SERVICE_SMTP_URL needs SERVICE_PUBLIC_URL: the mails hold links to this server.');
  if (settings.mode === 'single' && !isLoopback(settings.host))
    source.fault(
      `SERVICE_MODE single is for loopback only; ${settings.host} can be reached by others: use multi.`,
    );
  if (!helpWanted) source.finish();
  const help = `Flags go before variables. Each setting with its value now, and where it came from:\n\n${source.describe()}\n`;
  return { settings, helpWanted, help };
}

/** What counts for a server inside the command, too: it says nothing about serving. */
const variablesForAll = ['SERVICE_OUTBOUND_ALLOW', 'SERVICE_WEB_SEARCH_URL'];

/**
 * How the `service` command has a server inside its own process: on loopback, at any free port, for the one account of
 * the project. Of what the environment says about servers only counts what agents may reach.
 */
export function localServerSettings(dataDirectory: string, variables: Variables = {}): ServerSettings {
  const flags = ['--port', '0', '--mode', 'single', '--metrics', 'off', '--drain-seconds', '0'];
  // Every workspace of such a server is the person's folder, and others on this machine can reach its port.
  const counting = Object.fromEntries(variablesForAll.map((name) => [name, variables[name]]));
  const nobodyElse = ['--registration', 'invite'];
  return readServerSettings([...flags, ...nobodyElse, '--data-dir', dataDirectory], counting).settings;
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}

function readAll(source: SettingSource, variables: Variables): Omit<ServerSettings, 'ignoredVariables'> {
  const bind = readBind(source);
  const loopback = isLoopback(bind.host);
  const folders = readFolders(source, variables);
  const access = readAccess(source, loopback);
  return {
    ...bind,
    mode: source.read({
      variable: 'SERVICE_MODE',
      flag: 'mode',
      meaning: 'single: one account on this machine. multi: many accounts; commands run in a sandbox only.',
      fallback: loopback ? 'single' : 'multi',
      parse: oneOf('single', 'multi'),
    }),
    ...folders,
    ...access,
    oidcProviders: readOidcProviders(source, { loopback, publicUrl: access.publicUrl }),
    ...readMail(source),
    ...readLimits(source),
    databaseUrl: source.read({
      variable: 'DATABASE_URL',
      meaning: 'postgres://user:password@host/database; without it, SQLite in the data directory.',
      fallback: null,
      secret: true,
      parse: databaseUrl,
    }),
  };
}

function readBind(source: SettingSource) {
  return {
    host: source.read({
      variable: 'SERVICE_HOST',
      flag: 'host',
      meaning: 'The address to listen on.',
      fallback: '127.0.0.1',
      parse: notEmpty,
    }),
    port: source.read({
      variable: 'SERVICE_PORT',
      flag: 'port',
      meaning: 'The port to listen on; 0 takes any free one.',
      fallback: 8090,
      parse: wholeNumber(0, 65_535, 8090),
    }),
    debug: source.read({
      variable: 'SERVICE_DEBUG',
      flag: 'debug',
      meaning: 'Logs more, and lets web pages on this machine call (CORS).',
      fallback: false,
      parse: yesOrNo,
    }),
    strict: source.read({
      variable: 'SERVICE_STRICT',
      flag: 'strict',
      meaning: 'Checks every answer against the contract before it is sent.',
      fallback: false,
      parse: yesOrNo,
    }),
  };
}

function readFolders(source: SettingSource, variables: Variables) {
  const dataDirectory = source.read({
    variable: 'SERVICE_DATA_DIR',
    flag: 'data-dir',
    meaning: 'Where database and files live.',
    fallback: resolve('.data'),
    parse: folder,
  });
  const named = variables.XDG_CONFIG_HOME;
  // The XDG specification has relative paths ignored.
  const configHome = named && isAbsolute(named) ? named : join(variables.HOME || homedir(), '.config');
  return {
    dataDirectory,
    workspacesDirectory: source.read({
      variable: 'SERVICE_WORKSPACES_DIR',
      flag: 'workspaces-dir',
      meaning: 'Each workspace is a folder in here; several nodes need a shared one.',
      fallback: join(dataDirectory, 'workspaces'),
      parse: folder,
    }),
    workspaceRoots: source.read<readonly string[]>({
      variable: 'SERVICE_WORKSPACE_ROOTS',
      flag: 'workspace-roots',
      meaning:
        'Folders of the server that everybody with an account may work below, as /srv/projects, with commas between.',
      fallback: [],
      parse: absoluteFolders,
    }),
    globalConfigDirectory: source.read({
      variable: 'SERVICE_GLOBAL_CONFIG',
      flag: 'global-config',
      meaning: 'The folder of the global service.json.',
      fallback: join(configHome, 'service'),
      parse: folder,
    }),
    masterKeyFile: source.read<string | null>({
      variable: 'SERVICE_MASTER_KEY_FILE',
      flag: 'master-key-file',
      meaning: 'The file of the key that seals stored secrets; needed with PostgreSQL.',
      fallback: null,
      fallbackText: '(master.key in the data directory, made at the first start)',
      parse: folder,
    }),
  };
}

type AccessSettings = Pick<
  ServerSettings,
  | 'loginAttempts'
  | 'trustedProxies'
  | 'publicUrl'
  | 'registration'
  | 'adminEmail'
  | 'adminPassword'
  | 'corsOrigins'
  | 'outboundAllow'
  | 'webSearchUrl'
  | 'metrics'
>;

function readAccess(source: SettingSource, loopback: boolean): AccessSettings {
  return {
    registration: source.read({
      variable: 'SERVICE_REGISTRATION',
      flag: 'registration',
      meaning: 'open: anybody may register. invite: only with an invitation.',
      fallback: loopback ? 'open' : 'invite',
      parse: oneOf('open', 'invite'),
    }),
    loginAttempts: source.read({
      variable: 'SERVICE_LOGIN_ATTEMPTS',
      flag: 'login-attempts',
      meaning: 'How often one address may fail to log in to one account within 15 minutes; 0 brakes nothing.',
      fallback: 10,
      parse: wholeNumber(0, 1_000_000, 10),
    }),
    trustedProxies: source.read<readonly string[]>({
      variable: 'SERVICE_TRUSTED_PROXIES',
      flag: 'trusted-proxies',
      meaning:
        'The proxies whose X-Forwarded-For counts: addresses, ranges as 10.0.0.0/8, loopback, linklocal, uniquelocal; with commas between.',
      fallback: [],
      parse: proxies,
    }),
    publicUrl: source.read<string | null>({
      variable: 'SERVICE_PUBLIC_URL',
      flag: 'public-url',
      meaning:
        'How people reach this server, as https://service.example.com: for links, device logins, and the way back from OIDC providers.',
      fallback: null,
      parse: publicAddress,
    }),
    adminEmail: source.read<string | null>({
      variable: 'SERVICE_ADMIN_EMAIL',
      flag: 'admin-email',
      meaning: 'The operator to make at the first start, with SERVICE_ADMIN_PASSWORD.',
      fallback: null,
      parse: emailAddress,
    }),
    adminPassword: source.read<string | null>({
      variable: 'SERVICE_ADMIN_PASSWORD',
      meaning: 'The password of that operator; SERVICE_ADMIN_PASSWORD_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: (text) => (text.length >= 10 ? text : new Fault('must have at least 10 characters.')),
    }),
    corsOrigins: source.read<readonly string[]>({
      variable: 'SERVICE_CORS_ORIGINS',
      flag: 'cors-origins',
      meaning: 'Web pages that may call, as https://app.example.com, several with commas between; * for any.',
      fallback: [],
      parse: origins,
    }),
    outboundAllow: source.read<readonly string[]>({
      variable: 'SERVICE_OUTBOUND_ALLOW',
      flag: 'outbound-allow',
      meaning:
        'Private places that URLs of accounts and models may lead to, as ollama:11434, http://10.0.0.5, 10.1.0.0/16; with commas between.',
      fallback: [],
      parse: places,
    }),
    webSearchUrl: source.read<string | null>({
      variable: 'SERVICE_WEB_SEARCH_URL',
      flag: 'web-search-url',
      meaning: 'The address of a SearXNG that answers in JSON; without it agents cannot search the web.',
      fallback: null,
      parse: webAddress,
    }),
    metrics: source.read({
      variable: 'SERVICE_METRICS',
      flag: 'metrics',
      meaning: 'Who may read /metrics: public, operator, or nobody (off).',
      fallback: 'public',
      parse: oneOf('public', 'operator', 'off'),
    }),
  };
}

function readMail(source: SettingSource): Pick<ServerSettings, 'smtpUrl' | 'mailFrom'> {
  return {
    smtpUrl: source.read<string | null>({
      variable: 'SERVICE_SMTP_URL',
      meaning:
        'The mail server, as smtps://user:password@mail.example.com; without it the operator hands links on. SERVICE_SMTP_URL_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: smtpAddress,
    }),
    mailFrom: source.read<string | null>({
      variable: 'SERVICE_MAIL_FROM',
      flag: 'mail-from',
      meaning: 'The sender of the mails, as "Service <service@example.com>"; with SERVICE_SMTP_URL.',
      fallback: null,
      parse: mailSender,
    }),
  };
}

function readLimits(source: SettingSource) {
  return {
    migrationBackup: source.read({
      variable: 'SERVICE_MIGRATION_BACKUP',
      flag: 'migration-backup',
      meaning: 'Copies an older database into backups of the data directory before it is migrated.',
      fallback: true,
      parse: yesOrNo,
    }),
    leaseSeconds: source.read({
      variable: 'SERVICE_LEASE_SECONDS',
      flag: 'lease-seconds',
      meaning: 'How long a run stays with a process that gives no sign of life.',
      fallback: 10,
      parse: seconds(1, 3600),
    }),
    keepaliveSeconds: source.read({
      variable: 'SERVICE_KEEPALIVE_SECONDS',
      flag: 'keepalive-seconds',
      meaning: 'How often a stream is given a comment while nothing happens.',
      fallback: 15,
      parse: seconds(0.05, 3600),
    }),
    stallSeconds: source.read({
      variable: 'SERVICE_STALL_SECONDS',
      flag: 'stall-seconds',
      meaning: 'How long the reader of a stream may take nothing before it has to connect again.',
      fallback: 60,
      parse: seconds(0.05, 3600),
    }),
    answerSeconds: source.read({
      variable: 'SERVICE_ANSWER_SECONDS',
      flag: 'answer-seconds',
      meaning: 'How long a person has to answer what a run asks.',
      fallback: 900,
      parse: seconds(0.05, 86_400),
    }),
    providerSilenceSeconds: source.read({
      variable: 'SERVICE_PROVIDER_SILENCE_SECONDS',
      flag: 'provider-silence-seconds',
      meaning: 'How long a model provider may be silent before its answer counts as lost.',
      fallback: 120,
      parse: seconds(0.05, 3600),
    }),
    drainSeconds: source.read({
      variable: 'SERVICE_DRAIN_SECONDS',
      flag: 'drain-seconds',
      meaning: 'How long runs at work may go on once the server is told to stop.',
      fallback: 20,
      parse: seconds(0, 25),
    }),
    rateLimits: source.read<RateLimits>({
      variable: 'SERVICE_RATE_LIMITS',
      flag: 'rate-limits',
      meaning:
        'How many requests one account may send in how many seconds, by class, as read=600/60,write=120/60,run=30/60,login=20/60; a class that is not named is not limited.',
      fallback: {},
      parse: readRateLimits,
    }),
    idempotencyHours: source.read({
      variable: 'SERVICE_IDEMPOTENCY_HOURS',
      flag: 'idempotency-hours',
      meaning: 'How long the answer to a request with an Idempotency-Key is kept.',
      fallback: 24,
      parse: wholeNumber(1, 8760, 24),
    }),
    streamsPerUser: source.read({
      variable: 'SERVICE_STREAMS_PER_USER',
      flag: 'streams-per-user',
      meaning: 'How many streams one account may have open here.',
      fallback: 100,
      parse: wholeNumber(1, 1_000_000, 100),
    }),
    streamsTotal: source.read({
      variable: 'SERVICE_STREAMS_TOTAL',
      flag: 'streams-total',
      meaning: 'How many streams may be open here in all.',
      fallback: 1000,
      parse: wholeNumber(1, 1_000_000, 1000),
    }),
  };
}

function oneOf<const Choice extends string>(...choices: readonly Choice[]) {
  return (text: string): Choice | Fault =>
    choices.find((choice) => choice === text) ?? new Fault(`must be ${choices.join(' or ')}.`);
}

function wholeNumber(minimum: number, maximum: number, example: number) {
  return (text: string): number | Fault => {
    const number = Number(text);
    if (/^\d{1,9}$/.test(text) && number >= minimum && number <= maximum) return number;
    return new Fault(`must be a whole number from ${minimum} to ${maximum}, for instance ${example}.`);
  };
}

function seconds(minimum: number, maximum: number) {
  return (text: string): number | Fault => {
    const number = Number(text);
    if (/^\d+(\.\d+)?$/.test(text) && number >= minimum && number <= maximum) return number;
    return new Fault(`must be a number of seconds from ${minimum} to ${maximum}, for instance 15.`);
  };
}

function yesOrNo(text: string): boolean | Fault {
  if (/^(true|1|yes)$/i.test(text)) return true;
  if (/^(false|0|no)$/i.test(text)) return false;
  return new Fault('must be true or false.');
}

function notEmpty(text: string): string | Fault {
  return text.trim() === '' ? new Fault('must not be empty.') : text;
}

function folder(text: string): string | Fault {
  return text.trim() === '' ? new Fault('must name a place in the file system.') : resolve(text);
}

function absoluteFolders(text: string): readonly string[] | Fault {
  const given = text.split(',').map((path) => path.trim());
  const wrong = given.find((path) => !isAbsolute(path) || resolve(path) === '/');
  if (wrong === undefined) return given.map((path) => resolve(path));
  return new Fault(
    `must list absolute paths of folders, with commas between; ${wrong || '(nothing)'} is none.`,
  );
}

function databaseUrl(text: string): string | Fault {
  if (/^postgres(ql)?:\/\/./.test(text)) return text;
  return new Fault('must begin with postgres://, as postgres://user:password@host/database.');
}

function origins(text: string): readonly string[] | Fault {
  const given = text.split(',').map((origin) => origin.trim().replace(/\/$/, ''));
  const wrong = given.find((origin) => origin !== '*' && !isOrigin(origin));
  if (wrong === undefined) return given;
  return new Fault(`must list origins as https://app.example.com, with commas between; ${wrong} is none.`);
}

function webAddress(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.search && !url.hash;
  return usable ? url.href : new Fault('must be an address as http://localhost:8888.');
}

function publicAddress(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const bare = url && /^https?:$/.test(url.protocol) && !url.username && url.pathname === '/';
  if (!url || !bare || url.search || url.hash)
    return new Fault('must be an address without a path, as https://service.example.com.');
  const safe = url.protocol === 'https:' || isLoopback(url.hostname);
  return safe ? url.origin : new Fault('must begin with https://: what people send there is secret.');
}

function smtpAddress(text: string): string | Fault {
  const usable = URL.canParse(text) && /^smtps?:\/\/[^/]/.test(text) && new URL(text).hostname !== '';
  return usable
    ? text
    : new Fault('must begin with smtp:// or smtps://, as smtps://user:password@mail.example.com.');
}

/** As the contract has it: in ASCII, so that no address looks like another in foreign letters. */
const plainEmail = /^[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$/;

function emailAddress(text: string): string | Fault {
  return plainEmail.test(text) && text.length <= 254 ? text : new Fault('must be an e-mail address.');
}

function mailSender(text: string): string | Fault {
  const address = /^[^<>\p{Cc}]*<([^<>]+)>$/u.exec(text)?.[1] ?? text;
  return plainEmail.test(address)
    ? text
    : new Fault('must be an e-mail address, or a name and an address as "Service <service@example.com>".');
}

/** A range of everything would let everybody say where they come from. */
function proxies(text: string): readonly string[] | Fault {
  const given = text.split(',').map((proxy) => proxy.trim());
  const wrong = given.find((proxy) => !isProxy(proxy));
  if (wrong === undefined) return given;
  return new Fault(
    `must list addresses or ranges, as 10.0.0.0/8, with commas between; ${JSON.stringify(wrong)} is none.`,
  );
}

function isProxy(text: string): boolean {
  try {
    proxyAddr.compile(text);
    return text !== '';
  } catch {
    // The library throws a TypeError for what it cannot read, and has no other way to say so.
    return false;
  }
}

function places(text: string): readonly string[] | Fault {
  const given = text.split(',').map((place) => place.trim());
  const fault = given.map(allowListFault).find((one) => one !== null);
  return fault === undefined ? given : new Fault(`lists what cannot be used: ${fault}`);
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}
