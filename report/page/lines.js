// SPDX-License-Identifier: MIT
// Line charts: axes, the lines of runs, and what they show in words.

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
  time: {title: longest => `${DATA.clock.name}${DATA.clock.has_ideal ? ` ${DATA.clock.described}` : ''} (${timeUnit(longest).name})`,
    text: secondsText, log: () => false},
  time_ideal: {title: longest => `virtual time on an ideal network (${timeUnit(longest).name})`, text: secondsText, log: () => false},
  bytes: {title: () => 'sent by a worker', text: bytesText, log: () => byId('log-bytes').checked},
};

function xScale(axisName, longest) {
  const axis = AXES[axisName];
  const unit = axisName.startsWith('time') ? timeUnit(longest) : null;
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

// Markers stand at about ten points of a line.
function markers(count, radius) {
  const stride = Math.floor(count / 12) + 1;
  return Array.from({length: count}, (_, i) => (i + 1) % stride === 0 ? radius : 0);
}

function runLine(index, data, style = {}) {
  const color = colorOf(index);
  return {label: DATA.groups[index].label, data, borderColor: color, backgroundColor: color, borderDash: dashOf(index), borderWidth: 2,
    pointStyle: markerOf(index), pointRadius: markers(data.length, 4), pointBorderWidth: 1.5, pointHitRadius: 6, ...style};
}

const hasBands = () => DATA.groups.some(group => group.runs > 1);

// Mean line, and below it the band between the runs' extremes.
function curveSets(index, curve, axisName, weight, style) {
  if (!curve.step.length || !curve[axisName] || !curve[axisName].length) return [];
  const isLog = AXES[axisName].log();
  const line = values => points(curve[axisName], smoothed(values, weight), isLog);
  const sets = [runLine(index, line(curve.mean), style)];
  if (DATA.groups[index].runs > 1) {
    const edge = {borderWidth: 0, pointRadius: 0, pointHitRadius: 0, backgroundColor: colorOf(index) + '26', isBand: true};
    sets.push({...edge, data: line(curve.low), fill: false}, {...edge, data: line(curve.high), fill: '-1'});
  }
  return sets;
}

function longestOf(curves, axisName) {
  return Math.max(1e-9, ...curves.map(curve => (curve[axisName] || []).slice(-1)[0] || 0));
}

const lineLegend = () => ({position: 'bottom', labels: {color: cssColor('--ink'), usePointStyle: true, pointStyle: 'line', pointStyleWidth: 26}});

function lineChart(canvas, datasets, scales, xText, yText, withLegend = false) {
  describeLines(canvas, datasets, xText, yText);
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

const xTexts = {step: value => `step ${Math.round(value)}`, time: secondsText, time_ideal: secondsText, bytes: bytesText};

const AXIS_NAMES = {step: 'steps', time: 'time', time_ideal: 'time on an ideal network', bytes: 'bytes sent by a worker'};

// One chart of a quantity of all runs shown.
function drawCurve(parent, title, shown, field, axisName, weight, yType, yText, withTarget) {
  const canvas = card(parent, title);
  const longest = longestOf(shown.map(entry => entry.group[field]), axisName);
  const sets = shown.flatMap(({group, index}) => curveSets(index, group[field], axisName, weight, {}));
  if (withTarget && DATA.target !== null && sets.length) {
    const xs = sets.flatMap(set => set.data.map(point => point.x));
    const line = [Math.min(...xs), Math.max(...xs)].map(x => ({x, y: DATA.target}));
    sets.push({label: 'target', data: line, borderColor: cssColor('--muted'), borderDash: [4, 4], borderWidth: 1, pointRadius: 0});
  }
  lineChart(canvas, sets, {x: xScale(axisName, longest), y: yScale(yType, yText)}, xTexts[axisName], yText);
}
