/** The settings of the server process: flags and SERVICE_* variables, nothing else. */
import { isLoopback } from '../config/config.ts';
import { type AccessSettings, readAccess } from './access.ts';
import { type BindSettings, readBind } from './bind.ts';
import { type CatalogSettings, readCatalog } from './catalog.ts';
import { type DatabaseSettings, readDatabase } from './database.ts';
import { type FolderSettings, readFolders } from './folders.ts';
import { type LimitSettings, readLimits } from './limits.ts';
import { type MailSettings, readMail } from './mail.ts';
import { type OidcProviderSettings, readOidcProviders } from './oidc-settings.ts';
import { type RetentionSettings, readRetention } from './retention.ts';
import { createSettingSource, type SettingSource, type Variables } from './setting-source.ts';
import { readStorage, type StorageSettings } from './storage.ts';
import { readTraces, type TraceSettings } from './traces.ts';

export { ServerSettingsError } from './setting-source.ts';
export type { TraceSettings } from './traces.ts';

/** How this process serves. */
export interface ServerSettings
  extends BindSettings,
    FolderSettings,
    AccessSettings,
    MailSettings,
    CatalogSettings,
    LimitSettings,
    DatabaseSettings {
  /** The bucket that the environment names for files; null where the settings say where they lie. */
  readonly storage: StorageSettings | null;
  /** Through whom people log in besides. */
  readonly oidcProviders: readonly OidcProviderSettings[];
  /** How long what nobody needs any more is kept all the same. */
  readonly retention: RetentionSettings;
  /** Null where nobody asked for traces. */
  readonly traces: TraceSettings | null;
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
const variablesForAll = [
  ...['SERVICE_OUTBOUND_ALLOW', 'SERVICE_WEB_SEARCH_URL', 'SERVICE_CATALOG_URL', 'SERVICE_MODELS_DIR'],
  ...['HOME', 'XDG_DATA_HOME', 'XDG_CONFIG_HOME', 'SERVICE_GLOBAL_CONFIG'],
];

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

function readAll(source: SettingSource, variables: Variables): Omit<ServerSettings, 'ignoredVariables'> {
  const bind = readBind(source);
  const loopback = isLoopback(bind.host);
  const folders = readFolders(source, variables);
  const access = readAccess(source, loopback);
  return {
    ...bind,
    ...folders,
    ...access,
    oidcProviders: readOidcProviders(source, { loopback, publicUrl: access.publicUrl }),
    ...readMail(source),
    ...readCatalog(source),
    ...readLimits(source),
    retention: readRetention(source),
    traces: readTraces(source),
    ...readDatabase(source),
    ...readStorage(source),
  };
}
