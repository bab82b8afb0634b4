// SPDX-License-Identifier: MIT
// Draws the page from DATA (see page.cpp): legend, tables and charts. Charts are rebuilt when an option or the colour
// scheme changes; hidden runs stay hidden.
'use strict';

const hidden = new Set();
let charts = [];

const byId = id => document.getElementById(id);
const cssColor = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE_SIZE = 8;

// The dense run is the reference and neutral; the others take the palette in their order.
const colorNames = (() => {
  let next = 0;
  return DATA.groups.map(group => group.dense ? '--dense' : `--c${next++ % PALETTE_SIZE}`);
})();
const colorOf = index => cssColor(colorNames[index]);
// Where the palette comes round again, lines are dashed.
const dashOf = (() => {
  const seen = new Map();
  const rounds = colorNames.map(name => { seen.set(name, (seen.get(name) || 0) + 1); return seen.get(name) - 1; });
  return index => [[], [7, 3], [2, 2]][Math.min(rounds[index], 2)];
})();

function element(tag, text, parent) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

// --- numbers for readers

const trim = (value, digits) => String(Number(value.toPrecision(digits)));

function scaled(value, units, base, digits) {
  let index = 0;
  while (Math.abs(value) >= base && index + 1 < units.length) { value /= base; ++index; }
  return `${trim(value, digits)} ${units[index]}`.trim();
}

const bytesText = value => scaled(value, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000, 3);
const countText = value => scaled(value, ['', 'k', 'M', 'G'], 1000, 4).replace(' ', '');
const plainText = value => trim(value, 4);

function secondsText(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 1e-3) return `${trim(seconds * 1e6, 3)} µs`;
  if (seconds < 1) return `${trim(seconds * 1e3, 3)} ms`;
  if (seconds < 120) return `${trim(seconds, 3)} s`;
  return seconds < 7200 ? `${trim(seconds / 60, 3)} min` : `${trim(seconds / 3600, 3)} h`;
}

const percentText = (value, digits = 2) => `${(100 * value).toFixed(digits)} %`;
const metricText = value => DATA.metric.share ? percentText(value) : plainText(value);

// The unit of a time axis depends on its length, so that ticks are short.
function timeUnit(longest) {
  if (longest < 180) return {name: 's', seconds: 1};
  return longest < 3 * 3600 ? {name: 'min', seconds: 60} : {name: 'h', seconds: 3600};
}

// --- legend and tables

function drawLegend() {
  const legend = byId('legend');
  legend.replaceChildren();
  DATA.groups.forEach((group, index) => {
    const chip = element('button', undefined, legend);
    chip.className = 'chip';
    chip.setAttribute('aria-pressed', String(!hidden.has(index)));
    swatch(index, chip);
    element('span', group.runs > 1 ? `${group.label} (${group.runs} seeds)` : group.label, chip);
    chip.onclick = () => {
      if (!hidden.delete(index)) hidden.add(index);
      redraw();
    };
  });
}

function swatch(index, parent) {
  const box = element('span', undefined, parent);
  box.className = 'swatch';
  const color = colorOf(index);
  box.style.background = dashOf(index).length
    ? `repeating-linear-gradient(90deg, ${color} 0 ${dashOf(index)[0] / 2 + 1}px, transparent 0 ${dashOf(index)[0] / 2 + 3}px)` : color;
}

// Mean, and below it the range where several runs have the number, then what else there is to say.
function spreadCell(row, spread, text, extra) {
  const cell = element('td', spread ? text(spread.mean) : '–', row);
  if (spread && spread.count > 1 && text(spread.low) !== text(spread.high)) {
    element('small', `${text(spread.low)} to ${text(spread.high)}`, cell);
  }
  if (extra) element('small', extra, cell);
}

// "1.2× faster", or the second word for a factor below 1; nothing where one of the two is not known.
function factorText(dividend, divisor, words) {
  if (!dividend || !divisor || !(divisor.mean > 0) || !(dividend.mean > 0)) return '';
  const factor = dividend.mean / divisor.mean;
  return factor >= 1 ? `${trim(factor, 3)}× ${words[0]}` : `${trim(1 / factor, 3)}× ${words[1]}`;
}

function drawResults() {
  const table = byId('results');
  table.replaceChildren();
  const dense = DATA.dense === null ? null : DATA.groups[DATA.dense];
  const head = element('tr', undefined, table);
  ['Run', `Final ${DATA.metric.short}`, `Best ${DATA.metric.short}`, 'Last train loss', 'Density', 'Time to target',
    'Sent to target', 'Sent per step', 'Sent in all', 'Samples/s', 'Time', 'Steps'].forEach(title => element('th', title, head));
  DATA.groups.forEach((group, index) => {
    const row = element('tr', undefined, table);
    const name = element('td', undefined, row);
    swatch(index, name);
    name.append(group.label);
    element('small', [group.runs > 1 ? `${group.runs} seeds` : '', group.workers].filter(text => text).join(', '), name);
    const numbers = group.table;
    const versus = dense && group !== dense ? dense.table : {};
    spreadCell(row, numbers.final, metricText, differenceText(group, dense));
    spreadCell(row, numbers.best, metricText);
    spreadCell(row, numbers.loss, plainText);
    spreadCell(row, numbers.density, value => `${trim(100 * value, 3)} %`);
    spreadCell(row, numbers.target_time, secondsText, factorText(versus.target_time, numbers.target_time, ['faster', 'slower']));
    spreadCell(row, numbers.target_bytes, bytesText, factorText(versus.target_bytes, numbers.target_bytes, ['less', 'more']));
    spreadCell(row, numbers.bytes_per_step, bytesText, factorText(versus.bytes_per_step, numbers.bytes_per_step, ['less', 'more']));
    spreadCell(row, numbers.bytes, bytesText);
    spreadCell(row, numbers.throughput, countText, factorText(numbers.throughput, versus.throughput, ['faster', 'slower']));
    spreadCell(row, numbers.seconds, secondsText);
    spreadCell(row, numbers.steps, value => String(Math.round(value)));
  });
}

function differenceText(group, dense) {
  if (!dense || group === dense || !group.table.final || !dense.table.final) return '';
  const difference = group.table.final.mean - dense.table.final.mean;
  const size = DATA.metric.share ? `${(100 * Math.abs(difference)).toFixed(2)} points` : plainText(Math.abs(difference));
  return `${size} ${difference >= 0 ? 'above' : 'below'} dense`;
}

function drawDifferences() {
  const table = byId('differences');
  byId('differences-section').hidden = DATA.differences.length === 0;
  table.className = 'left';
  table.replaceChildren();
  const head = element('tr', undefined, table);
  element('th', 'Key', head);
  DATA.groups.forEach(group => element('th', group.label, head));
  for (const difference of DATA.differences) {
    const row = element('tr', undefined, table);
    element('td', difference.key, row);
    difference.values.forEach(value => element('td', value === '' ? '–' : value, row));
  }
}

function comparedText() {
  if (DATA.dense === null) return 'No dense run is given to compare with.';
  return `Faster, slower, less and more: than ${DATA.groups[DATA.dense].label}. Where there are several seeds: mean, and range.`;
}

function drawTexts() {
  byId('subtitle').textContent = DATA.subtitle;
  byId('metric-title').textContent = DATA.metric.label;
  byId('target').textContent = DATA.target === null
    ? `No target: ${DATA.target_reason}.`
    : `Target: ${DATA.metric.short} of ${metricText(DATA.target)} (${DATA.target_reason}); reached at the first ` +
      `evaluation at it or better. ${comparedText()}`;
  const warnings = byId('warnings');
  DATA.warnings.forEach(text => { element('p', text, warnings).className = 'warning'; });
  const overlapped = DATA.groups.filter(group => group.seconds.exchange_hidden > 0)
    .map(group => `${group.label} ${secondsText(group.seconds.exchange_hidden)}, after it ` +
      secondsText(group.seconds.exchange_exposed || 0));
  byId('hidden-note').textContent = overlapped.length
    ? `Compensate to settle behind backward: ${overlapped.join('; ')}.` : '';
}

// --- charts

function card(parent, title) {
  const box = element('div', undefined, parent);
  box.className = 'card';
  if (title) element('h3', title, box);
  const holder = element('div', undefined, box);
  holder.className = 'canvas';
  return element('canvas', undefined, holder);
}

// Exponential moving average without the bias of a zero start.
function smoothed(values, weight) {
  let sum = 0, norm = 0;
  return values.map(value => {
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

const AXES = {
  step: {title: () => 'steps', text: countText, log: () => false},
  time: {title: longest => `time (${timeUnit(longest).name})`, text: secondsText, log: () => false},
  bytes: {title: () => 'sent by a worker', text: bytesText, log: () => byId('log-bytes').checked},
};

function xScale(axisName, longest) {
  const axis = AXES[axisName];
  const unit = axisName === 'time' ? timeUnit(longest) : null;
  const scale = {
    type: axis.log() ? 'logarithmic' : 'linear',
    title: {display: true, text: axis.title(longest), color: cssColor('--muted')},
    grid: {color: cssColor('--grid')},
    ticks: {color: cssColor('--muted'), maxRotation: 0, autoSkipPadding: 14, maxTicksLimit: 8},
  };
  if (axis.log()) {
    // One tick per power of ten; Chart.js would put ten between.
    scale.afterBuildTicks = built => {
      const decades = built.ticks.filter(tick => Number.isInteger(Math.round(Math.log10(tick.value) * 1e6) / 1e6));
      if (decades.length > 1) built.ticks = decades;
    };
    scale.ticks.callback = value => axis.text(value);
  } else if (unit) {
    scale.ticks.stepSize = niceStep(longest / unit.seconds / 6) * unit.seconds;
    scale.ticks.callback = value => trim(value / unit.seconds, 3);
  } else {
    scale.ticks.callback = value => axis.text(value);
  }
  return scale;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough);
}

function yScale(type, text) {
  return {type, grid: {color: cssColor('--grid')}, ticks: {color: cssColor('--muted'), callback: value => text(value), maxTicksLimit: 8}};
}

const points = (xs, ys, isLog) => xs.map((x, i) => ({x, y: ys[i]})).filter(point => !isLog || point.x > 0);

// Mean line, and below it the band between the runs' extremes.
function curveSets(index, curve, axisName, weight, style) {
  if (!curve.step.length) return [];
  const isLog = AXES[axisName].log();
  const line = values => points(curve[axisName], smoothed(values, weight), isLog);
  const color = colorOf(index);
  const base = {borderColor: color, backgroundColor: color, borderDash: dashOf(index), pointRadius: 0, pointHitRadius: 6, borderWidth: 2, ...style};
  const sets = [{...base, label: DATA.groups[index].label, data: line(curve.mean)}];
  if (DATA.groups[index].runs > 1) {
    const edge = {borderWidth: 0, pointRadius: 0, pointHitRadius: 0, backgroundColor: color + '26', isBand: true};
    sets.push({...edge, data: line(curve.low), fill: false}, {...edge, data: line(curve.high), fill: '-1'});
  }
  return sets;
}

function longestOf(curves, axisName) {
  return Math.max(1e-9, ...curves.map(curve => curve[axisName][curve[axisName].length - 1] || 0));
}

const lineLegend = () => ({position: 'bottom', labels: {color: cssColor('--ink'), usePointStyle: true, pointStyle: 'line', pointStyleWidth: 26}});

function lineChart(canvas, datasets, scales, xText, yText, withLegend = false) {
  charts.push(new Chart(canvas, {
    type: 'line',
    data: {datasets},
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true,
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales,
      plugins: {
        legend: withLegend ? lineLegend() : {display: false},
        tooltip: {
          filter: item => !item.dataset.isBand,
          callbacks: {
            title: items => items.length ? xText(items[0].parsed.x) : '',
            label: item => `${item.dataset.label}: ${yText(item.parsed.y)}`,
          },
        },
      },
    },
  }));
}

const visible = () => DATA.groups.map((group, index) => ({group, index})).filter(entry => !hidden.has(entry.index));

const xTexts = {step: value => `step ${Math.round(value)}`, time: secondsText, bytes: bytesText};

function drawCurves(parentId, field, weight, yType, yText, withTarget) {
  const parent = byId(parentId);
  parent.replaceChildren();
  const titles = {step: 'against steps', time: 'against time', bytes: 'against bytes sent by a worker'};
  for (const axisName of Object.keys(AXES)) {
    const canvas = card(parent, titles[axisName]);
    const shown = visible();
    const curves = shown.map(entry => entry.group[field]);
    const longest = longestOf(curves, axisName);
    const sets = shown.flatMap(({group, index}) => {
      const dots = field === 'metric' && group.metric.step.length <= 40 ? {pointRadius: 2.5} : {};
      return curveSets(index, group[field], axisName, weight, dots);
    });
    if (withTarget && DATA.target !== null && sets.length) {
      const xs = sets.flatMap(set => set.data.map(point => point.x));
      const line = [Math.min(...xs), Math.max(...xs)].map(x => ({x, y: DATA.target}));
      sets.push({label: 'target', data: line, borderColor: cssColor('--muted'), borderDash: [4, 4], borderWidth: 1, pointRadius: 0});
    }
    lineChart(canvas, sets, {x: xScale(axisName, longest), y: yScale(yType, yText)}, xTexts[axisName], yText);
  }
}

function drawDensity() {
  const parent = byId('density-chart');
  parent.replaceChildren();
  const styles = {local: {borderDash: []}, target: {borderDash: [6, 4], borderWidth: 1.5}, global: {borderDash: [2, 3], borderWidth: 1.5}};
  const sets = visible().flatMap(({group, index}) => Object.entries(styles).flatMap(([name, style]) => {
    const curve = group.density[name];
    const curveName = {local: 'selected', target: 'target', global: 'exchanged sum'}[name];
    return curveSets(index, curve, 'step', 0, style).slice(0, 1)
      .map(set => ({...set, label: `${group.label}, ${curveName}`, data: set.data.filter(point => point.y > 0)}));
  }));
  if (!sets.length) {
    element('p', 'No run shown here sparsifies its gradients.', parent).className = 'note';
    return;
  }
  const text = value => `${trim(100 * value, 3)} %`;
  const longest = longestOf(visible().map(entry => entry.group.density.local), 'step');
  const scale = yScale('logarithmic', text);
  scale.afterBuildTicks = built => {
    built.ticks = built.ticks.filter(tick => /^[125]/.test(tick.value.toExponential()));
  };
  lineChart(card(parent), sets, {x: xScale('step', longest), y: scale}, xTexts.step, text);
}

function drawTimes() {
  const parent = byId('time-chart');
  parent.replaceChildren();
  const canvas = card(parent);
  const shown = visible();
  const verbs = DATA.verbs.filter(verb => shown.some(({group}) => group.seconds[verb] > 0));
  charts.push(new Chart(canvas, {
    type: 'bar',
    data: {
      labels: shown.map(({group}) => group.label),
      datasets: verbs.map(verb => ({
        label: verb.replace('_', ' + '),
        data: shown.map(({group}) => group.seconds[verb] || 0),
        backgroundColor: cssColor(`--v-${verb}`), borderColor: cssColor('--card'), borderWidth: 1, maxBarThickness: 34,
      })),
    },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, indexAxis: 'y',
      scales: {
        x: {stacked: true, grid: {color: cssColor('--grid')}, ticks: {color: cssColor('--muted'), maxTicksLimit: 8,
          callback: value => secondsText(value)}},
        y: {stacked: true, grid: {display: false}, ticks: {color: cssColor('--ink')}},
      },
      plugins: {
        legend: {position: 'bottom', labels: {color: cssColor('--ink'), boxWidth: 11, boxHeight: 11}},
        tooltip: {callbacks: {label: item => `${item.dataset.label}: ${secondsText(item.parsed.x)}`}},
      },
    },
  }));
}

// Ratios: on a logarithmic axis where they span more than a factor of 4, with one tick for 1, 2 and 5.
function ratioScale(values, title) {
  const positive = values.filter(value => value > 0);
  const low = Math.min(1, ...positive), high = Math.max(1, ...positive);
  const isLog = high / low > 4;
  const scale = yScale(isLog ? 'logarithmic' : 'linear', value => trim(value, 3));
  scale.title = {display: true, text: title, color: cssColor('--muted')};
  if (!isLog) return {...scale, suggestedMin: low, suggestedMax: high};
  scale.min = low / 1.1;
  scale.max = high * 1.1;
  scale.afterBuildTicks = built => {
    built.ticks = built.ticks.filter(tick => (high / low > 100 ? /^1/ : /^[125]/).test(tick.value.toExponential()));
  };
  return scale;
}

const measured = () => visible().filter(({group}) => group.estimation);

function drawEstimationTable() {
  const table = byId('estimation');
  table.replaceChildren();
  const head = element('tr', undefined, table);
  ['Run', 'Mean', '90 % confidence interval', '5th percentile', '95th percentile', 'Logged steps']
    .forEach(title => element('th', title, head));
  measured().forEach(({group, index}) => {
    const row = element('tr', undefined, table);
    const name = element('td', undefined, row);
    swatch(index, name);
    name.append(group.label);
    const numbers = group.estimation;
    const text = value => trim(value, 4);
    [text(numbers.mean), `${text(numbers.ci_low)} to ${text(numbers.ci_high)}`, text(numbers.p5), text(numbers.p95), numbers.steps]
      .forEach(cell => element('td', cell, row));
  });
}

// A row per run: bars from percentile to percentile and over the confidence interval, and a dot at the mean.
function drawEstimationChart() {
  const shown = measured();
  const colors = shown.map(({index}) => colorOf(index));
  const of = key => shown.map(({group}) => group.estimation[key]);
  const scale = ratioScale([...of('p5'), ...of('p95'), ...of('mean')], 'selected / k');
  const bar = (low, high, thickness, alpha) => ({
    type: 'bar', grouped: false, barThickness: thickness, backgroundColor: colors.map(color => color + alpha),
    data: shown.map(({group}) => [low, high].map(key => Math.max(group.estimation[key], scale.min || 0))),
    isBand: true,
  });
  const canvas = card(byId('estimation-chart'), 'mean, confidence interval and percentiles');
  canvas.parentNode.style.height = `${Math.max(270, 60 + 22 * shown.length)}px`;
  charts.push(new Chart(canvas, {
    data: {
      labels: shown.map(({group}) => group.label),
      datasets: [
        {type: 'line', showLine: false, label: 'mean', data: of('mean'), pointRadius: 4, pointBackgroundColor: colors,
          pointBorderColor: cssColor('--card'), pointBorderWidth: 1},
        bar('ci_low', 'ci_high', 11, ''), bar('p5', 'p95', 4, '80'),
      ],
    },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, indexAxis: 'y',
      scales: {x: scale, y: {type: 'category', offset: true, grid: {display: false}, ticks: {color: cssColor('--ink'), autoSkip: false}}},
      plugins: {legend: {display: false}, tooltip: {filter: item => !item.dataset.isBand,
        callbacks: {label: item => `selected / k: ${trim(item.parsed.x, 4)}`}}},
    },
  }));
}

function drawQuality(weight) {
  const shown = measured();
  byId('estimation-section').hidden = !DATA.groups.some(group => group.estimation);
  ['estimation-chart', 'quality-chart'].forEach(id => byId(id).replaceChildren());
  if (!shown.length) return;
  drawEstimationTable();
  drawEstimationChart();
  const sets = shown.flatMap(({group, index}) => curveSets(index, group.quality, 'step', weight, {}));
  const longest = longestOf(shown.map(({group}) => group.quality), 'step');
  const values = sets.flatMap(set => set.data.map(point => point.y));
  lineChart(card(byId('quality-chart'), `against steps${weight > 0 ? `, running mean (weight ${weight})` : ''}`), sets,
    {x: xScale('step', longest), y: ratioScale(values, 'selected / k')}, xTexts.step, value => trim(value, 4));
}

function drawTraces(weight) {
  const parent = byId('trace-charts');
  parent.replaceChildren();
  const hasTrace = group => group.trace.threshold.step.length > 0;
  byId('traces-section').hidden = !DATA.groups.some(hasTrace);
  for (const {group, index} of visible().filter(entry => hasTrace(entry.group))) {
    const {threshold, error} = group.trace;
    const line = (curve, label, style) => curveSets(index, curve, 'step', weight, style).slice(0, 1)
      .map(set => ({...set, label, data: set.data.filter(point => point.y > 0)}));
    const sets = [...line(threshold, 'threshold', {borderDash: []}),
      ...line(error, 'residual norm, scaled', {borderDash: [6, 4], borderWidth: 1.5, borderColor: cssColor('--muted')})];
    lineChart(card(parent, group.label), sets,
      {x: xScale('step', longestOf([threshold], 'step')), y: yScale('logarithmic', plainText)}, xTexts.step, plainText);
  }
}

// The density between neighbouring magnitudes holds the difference of their shares.
function densityPoints(magnitudes, shares, isHistogram) {
  const result = [];
  for (let i = 0; i + 1 < shares.length; ++i) {
    const [left, right] = [magnitudes[i], magnitudes[i + 1]];
    if (!(right > left)) continue;
    const y = (shares[i] - shares[i + 1]) / (right - left);
    if (isHistogram) result.push({x: left, y}, {x: right, y});
    else result.push({x: (left + right) / 2, y});
  }
  return result;
}

function drawFits() {
  const parent = byId('fit-charts');
  parent.replaceChildren();
  byId('fits-section').hidden = DATA.fits.length === 0;
  const fitted = {exponential: ['--c0', [7, 3]], gamma: ['--c1', [2, 2]], pareto: ['--c2', [8, 3, 2, 3]]};
  const names = {exponential: 'exponential', gamma: 'gamma', pareto: 'generalized Pareto'};
  const line = (label, data, color, dash, fill) => ({label, data, borderColor: color, backgroundColor: color + '26',
    borderDash: dash, borderWidth: 2, pointRadius: 0, pointHitRadius: 5, fill});
  for (const fit of DATA.fits) {
    const row = element('div', undefined, parent);
    row.className = 'two';
    const largest = fit.magnitude[fit.magnitude.length - 1];
    const lines = (points, fill) => [line('gradient', points(fit.magnitude, fill), cssColor('--dense'), [], fill),
      ...Object.entries(fitted).map(([key, [color, dash]]) => line(names[key], points(fit[key], false), cssColor(color), dash, false))];
    const scale = (type, title) => ({...xScale('step', 1), type, title: {display: true, text: title, color: cssColor('--muted')}});
    const number = value => trim(value, 3);
    const densities = lines((values, isHistogram) => densityPoints(values, fit.share, isHistogram)
      .filter(point => point.x <= largest), 'start');
    const x = scale('linear', 'magnitude');
    x.ticks.callback = number;
    const y = yScale('logarithmic', value => value.toExponential(0));
    const measuredDensities = densities[0].data.map(point => point.y);
    y.min = Math.min(...measuredDensities) / 2;
    y.title = {display: true, text: 'density', color: cssColor('--muted')};
    lineChart(card(row, `${fit.name}: histogram`), densities, {x, y}, number, number, true);
    const tails = lines(values => values.map((value, i) => ({x: value, y: fit.share[i]})).filter(point => point.x > 0), false);
    const tailX = scale('logarithmic', 'magnitude');
    tailX.ticks.callback = value => value.toExponential(0);
    tailX.min = fit.magnitude.find(value => value > 0);
    tailX.afterBuildTicks = built => { built.ticks = built.ticks.filter(tick => /^1/.test(tick.value.toExponential())); };
    const tailY = yScale('logarithmic', value => value.toExponential(0));
    tailY.title = {display: true, text: 'share of entries above', color: cssColor('--muted')};
    tailY.afterBuildTicks = tailX.afterBuildTicks;
    lineChart(card(row, `${fit.name}: tail`), tails, {x: tailX, y: tailY}, number, number, true);
  }
}

function redraw() {
  charts.forEach(chart => chart.destroy());
  charts = [];
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  const weight = Number(byId('smoothing').value);
  drawLegend();
  drawResults();
  const axisPercent = value => DATA.metric.share ? `${trim(100 * value, 3)} %` : plainText(value);
  drawCurves('metric-charts', 'metric', 0, 'linear', axisPercent, true);
  drawCurves('loss-charts', 'loss', weight, byId('log-loss').checked ? 'logarithmic' : 'linear', plainText, false);
  byId('loss-note').textContent = `Mean over the global batch${weight > 0 ? `, smoothed (weight ${weight})` : ''}` +
    `${DATA.groups.some(group => group.runs > 1) ? '; bands show the range over seeds' : ''}.`;
  drawDensity();
  drawTimes();
  drawQuality(weight);
  drawTraces(weight);
  drawFits();
}

drawTexts();
drawDifferences();
redraw();
for (const id of ['smoothing', 'log-loss', 'log-bytes']) byId(id).addEventListener('input', redraw);
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
