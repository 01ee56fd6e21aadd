/** Where more is known of models than the program itself knows, and how often that is asked. */
import { Fault, type SettingSource } from './setting-source.ts';
import { wholeNumber } from './value-forms.ts';

export interface CatalogSettings {
  /** A catalogue of models for the whole installation; null where nothing is fetched unasked. */
  readonly catalogUrl: string | null;
  /** How often this one and those that the operator has created with a URL are asked for what is new. */
  readonly catalogHours: number;
}

export function readCatalog(source: SettingSource): CatalogSettings {
  return {
    catalogUrl: source.read<string | null>({
      variable: 'SERVICE_CATALOG_URL',
      flag: 'catalog-url',
      meaning:
        'A catalogue of models, as https://models.example.com/catalog.json: what it knows of windows, prices and abilities counts before the list that is part of the program; without it nothing is fetched.',
      fallback: null,
      parse: address,
    }),
    catalogHours: source.read({
      variable: 'SERVICE_CATALOG_HOURS',
      flag: 'catalog-hours',
      meaning: 'After how many hours the URLs of catalogues are asked for what is new.',
      fallback: 6,
      parse: wholeNumber(1, 8760, 6),
    }),
  };
}

function address(text: string): string | Fault {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.hash;
  return usable
    ? url.href
    : new Fault('must be an address as https://models.example.com/catalog.json, without a user name.');
}
