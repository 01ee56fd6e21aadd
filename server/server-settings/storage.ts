/** Where files of people lie, if the environment says it: a bucket of an S3 storage. */
import { Fault, type SettingSource } from './setting-source.ts';
import { wholeNumber, yesOrNo } from './value-forms.ts';

/** A bucket, and what counts in it. */
export interface StorageSettings {
  /** Null for AWS, whose endpoint follows from the region. */
  readonly endpoint: string | null;
  readonly region: string;
  readonly bucket: string;
  /** What all keys begin with; empty where the whole bucket is ours. */
  readonly prefix: string;
  /** Whether the bucket stands in the path, rather than in the name of the host. */
  readonly pathStyle: boolean;
  /** Null for those of the AWS_* variables, or what the machine has been given. */
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string } | null;
  /** Null for 100 MiB. */
  readonly maxFileBytes: number | null;
  /** Null where files are kept until somebody deletes them. */
  readonly retentionDays: number | null;
}

export function readStorage(source: SettingSource): { readonly storage: StorageSettings | null } {
  return {
    storage: source.read<StorageSettings | null>({
      variable: 'STORAGE_URL',
      meaning:
        's3://key:secret@host/bucket/prefix?region=eu-central-1; without it the settings say where files lie, and they begin with the data directory. STORAGE_URL_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: storageUrl,
    }),
  };
}

const shape = 'must be as s3://key:secret@host/bucket/prefix?region=eu-central-1';

function storageUrl(text: string): StorageSettings | Fault {
  if (!/^s3:\/\/[^/]/.test(text) || !URL.canParse(text)) return new Fault(`${shape}.`);
  const url = new URL(text);
  const [bucket = '', ...prefix] = url.pathname.split('/').filter(Boolean);
  if (!/^[A-Za-z0-9][\w.-]{1,254}$/.test(bucket)) return new Fault(`${shape}: it names no bucket.`);
  if (!/^[\w!.*'()/-]*$/.test(prefix.join('/')))
    return new Fault(`${shape}, and the prefix holds letters, digits and /!-_.*'() only.`);
  const credentials = credentialsOf(url);
  if (credentials instanceof Fault) return credentials;
  const options = optionsOf(url.searchParams);
  if (options instanceof Fault) return options;
  const { tls = true, region, path_style, max_file_bytes = null, retention_days = null } = options;
  const aws = amazon(url);
  return {
    endpoint: aws ? null : `${tls ? 'https' : 'http'}://${url.host.toLowerCase()}`,
    region: region ?? aws?.region ?? 'us-east-1',
    bucket,
    prefix: prefix.join('/'),
    pathStyle: path_style ?? aws === null,
    credentials,
    maxFileBytes: max_file_bytes,
    retentionDays: retention_days,
  };
}

/** `s3.amazonaws.com` and `s3.eu-central-1.amazonaws.com`, the endpoints of AWS itself. */
function amazon({ hostname, port }: URL): { readonly region: string | undefined } | null {
  const found = /^s3(?:\.([a-z0-9-]+))?\.amazonaws\.com$/i.exec(hostname);
  return found && port === '' ? { region: found[1] } : null;
}

function credentialsOf({ username, password }: URL): StorageSettings['credentials'] | Fault {
  if (username === '' && password === '') return null;
  if (username === '' || password === '') return new Fault(`${shape}, with both key and secret, or neither.`);
  try {
    return {
      accessKeyId: decodeURIComponent(username),
      secretAccessKey: decodeURIComponent(password),
    };
  } catch {
    // The cause would hold the secret.
    return new Fault(`${shape}, with key and secret percent-encoded.`);
  }
}

const forms = {
  tls: yesOrNo,
  path_style: yesOrNo,
  region: (text: string) => (/^[a-z0-9-]{1,50}$/.test(text) ? text : new Fault('must be a region.')),
  max_file_bytes: (text: string) =>
    /^\d{1,10}$/.test(text) && Number(text) >= 1 && Number(text) <= 5_368_709_120
      ? Number(text)
      : new Fault('must be a number of bytes from 1 to 5368709120.'),
  retention_days: wholeNumber(1, 36_500, 365),
};

type Options = { [Name in keyof typeof forms]?: Exclude<ReturnType<(typeof forms)[Name]>, Fault> };

function optionsOf(query: URLSearchParams): Options | Fault {
  const options: Record<string, unknown> = {};
  for (const [name, text] of query) {
    const form = (forms as Record<string, ((text: string) => unknown) | undefined>)[name]; // any name may come
    if (!form) return new Fault(`${shape}: ${name} is none of ${Object.keys(forms).join(', ')}.`);
    const value = form(text);
    if (value instanceof Fault) return new Fault(`has a ${name} that ${value.message}`);
    options[name] = value;
  }
  return options;
}
